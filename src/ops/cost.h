// The ideal cost of an op: what the fused op must do and move, whatever algorithm runs. Used by
// bench, plan and --stats.
#pragma once

namespace baltoro {

struct Cost {
  double flops = 0;  // algorithm-independent; a multiply-add counts 2
  double executed_flops =
      0;  // what the chosen algorithm of this backend executes (chunk form, padding, re-expansion)
  double weight_bytes = 0;      // weights read once
  double activation_bytes = 0;  // inputs read once, outputs written once
  double state_bytes = 0;       // recurrent state and cache, read and written
  double updated_bytes = 0;     // those of state_bytes that are read and written in place

  double bytes() const { return weight_bytes + activation_bytes + state_bytes; }
  Cost& operator+=(const Cost& other) {
    flops += other.flops;
    executed_flops += other.executed_flops;
    weight_bytes += other.weight_bytes;
    activation_bytes += other.activation_bytes;
    state_bytes += other.state_bytes;
    updated_bytes += other.updated_bytes;
    return *this;
  }
};

}  // namespace baltoro
