// Keys of a configuration that look like sizes of the model and that nobody reads.
#pragma once

#include <string>

namespace baltoro::cli {

// A plan with a size left out is wrong and looks right, so a whole number above 1 under a name such
// as num_x, x_size, x_dim, x_rank, x_layers, x_heads or x_experts must be one that is read, or one
// that is known to change no shape. `path` is a config.json or its directory.
// Throws Error{kBadModel} naming each.
void check_shape_keys(const std::string& path);

}  // namespace baltoro::cli
