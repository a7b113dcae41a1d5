// What a quantization_config may say. Which tensors are quantised is decided by the tensors
// present.
#pragma once

#include "model/config_reader.h"

namespace baltoro {

// True where the file asks for compressed-tensors MXFP4 (groups of 32, E8M0 scales), false where
// there is no quantization_config. Any other method or number format is Error{kBadModel}: a
// guess would give fluent nonsense.
bool check_quantization(ConfigReader& reader);

}  // namespace baltoro
