// A 64-bit mark of a model as loaded, so that state computed by one model is never continued by
// another.
#pragma once

#include <cstdint>
#include <string_view>

#include "io/checkpoint_files.h"

namespace baltoro {

// Over the configuration text, `variant` (what else changes the meaning of state: activation type,
// backend), each weight file's size and header, and a few bytes from the middle of up to 4096
// tensors. Throws Error{kIo}.
std::uint64_t fingerprint(std::string_view config_text, std::string_view variant,
                          const CheckpointFiles& files);

}  // namespace baltoro
