#include "plan/kernel.h"

#include <algorithm>

namespace baltoro::plan {

double KernelModel::seconds(const KernelWork& work, double bandwidth) const {
  const double arithmetic = work.flops * seconds_per_flop.at(work.rows) +
                            work.inner_products() * seconds_per_inner_product +
                            work.weight_rows() * seconds_per_weight_row;
  const double memory = work.bytes * bytes_per_byte.at(work.run) / bandwidth;
  return std::max(arithmetic, memory) + (1 - overlap) * std::min(arithmetic, memory) +
         fixed_seconds;
}

}  // namespace baltoro::plan
