#include "plan/kernel.h"

#include <algorithm>

namespace baltoro::plan {

double KernelModel::arithmetic_seconds(const KernelWork& work, const MachineState& machine) const {
  return (work.flops * flops_per_flop.at(work.rows) +
          work.inner_products() * flops_per_inner_product +
          work.weight_rows() * flops_per_weight_row) /
         machine.flops_per_second;
}

double KernelModel::memory_seconds(const KernelWork& work, const MachineState& machine) const {
  return work.bytes * bytes_per_byte.at(work.run) / machine.bandwidth;
}

double KernelModel::seconds(const KernelWork& work, const MachineState& machine) const {
  const double arithmetic = arithmetic_seconds(work, machine);
  const double memory = memory_seconds(work, machine);
  return std::max(arithmetic, memory) + (1 - overlap) * std::min(arithmetic, memory) +
         launches * work.loops * machine.dispatch_seconds;
}

}  // namespace baltoro::plan
