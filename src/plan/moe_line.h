// The balance of the routed experts: distinct experts, rows an expert, and messages against
// products.
#pragma once

#include "plan/step.h"

namespace baltoro::plan {

struct MoeLine {
  double tokens =
      0;  // t, of the ranks that share one set of experts; of a half batch where there are two
  double distinct = 0;         // D(t)
  double rows_per_expert = 0;  // tau = t K / N
  double rows_per_touched = 0;
  double knee_rows = 0;                   // tau*
  double knee_rows_with_activations = 0;  // of a fused kernel: z read, out written
  double knee_tokens = 0;                 // t* = tau* N / K
  double bandwidth = 0;        // B of the ratios: one direction, of one device, by its sheet
  double bytes_both_ways = 0;  // b_d + b_c of one value
  // T_comm / T_compute where products are bound by FLOPs, all at their peaks. rho_notes counts one byte each way, as
  // the notes' F / (3 m B); rho the bytes; rho_full also (E-1)/E, R(E)/K and skew; rho_layer has
  // shared experts and latent projections in the denominator, at their own rates.
  double rho_notes = 0;
  double rho = 0;
  double rho_full = 0;
  double rho_layer = 0;
  // One layer of the step, seconds: messages, products, weight reads.
  double messages = 0;
  double compute = 0;
  double memory = 0;
  double hidden = 0;
  double skew = 1;
};

// Throws Error{kUsage} for a model without experts.
MoeLine compute_moe_line(const Scenario& scenario, const Step& step);

// Messages over products of E expert ranks at any number of tokens above the knee, all at their
// peaks and without latencies.
double full_ratio(const Scenario& scenario, std::int64_t ranks);

}  // namespace baltoro::plan
