// Calibration points of the ops that carry state from token to token: kda_mix, mla_prefill,
// mla_decode.
#pragma once

#include <vector>

#include "measure/op_points.h"

namespace baltoro {

void add_sequence_points(std::vector<OpPoint>& list);

}  // namespace baltoro
