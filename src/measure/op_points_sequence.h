// Calibration points of the ops that carry state from token to token: kda_mix, mla_prefill,
// mla_decode.
#pragma once

#include <vector>

#include "measure/op_points.h"

namespace baltoro {

// `on_device`: with larger ones.
void add_sequence_points(std::vector<OpPoint>& list, bool on_device);

}  // namespace baltoro
