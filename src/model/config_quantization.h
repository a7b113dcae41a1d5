// What a quantization_config may say. Which tensors are quantised is decided by the tensors
// present.
#pragma once

#include <string>
#include <string_view>

#include "model/config.h"
#include "model/config_reader.h"

namespace baltoro {

struct Quantization {
  bool mxfp4_experts = false;  // routed experts as MXFP4 (core/mxfp4.h)
  bool mxint8_trunk = false;   // large matrices beside them as MXINT8 (core/mxint8.h)
};

// What the file asks for: compressed-tensors with format mxfp4-pack-quantized, baltoro's own
// mxint8-pack-quantized, or mixed-precision where each group names one of the two; groups of 32 with
// E8M0 scales. Neither where there is no quantization_config. Any other method or number format is
// Error{kBadModel}: a guess would give fluent nonsense.
Quantization check_quantization(ConfigReader& reader);

// MXFP4 scales 32 values of a row at a time: the columns of w1 and w3, then of w2, must be whole
// groups.
void check_mxfp4_widths(ConfigReader& reader, const ModelConfig& config);

// The text of a config.json with a quantization_config that says `quantization`, in place of one
// that it had. Other keys and their order stay.
std::string with_quantization(std::string_view text, const Quantization& quantization);

}  // namespace baltoro
