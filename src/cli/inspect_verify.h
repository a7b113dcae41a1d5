// `inspect --verify`: reads every tensor of a checkpoint.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>

#include "cli/progress.h"
#include "model/config.h"

namespace baltoro::cli {

// Prints what is wrong (tensors that are missing, of another shape, unused or damaged; gaps in the
// files) and one checksum over all tensors, or adds it to `document` where that is not null,
// together with the checksum of each tensor. Returns the exit status: kBadModel where a tensor is
// damaged or the files are not those of `config`. Throws Error{kIo, kBadModel}.
int verify_model(const ModelConfig& config, const std::filesystem::path& dir, ProgressMode progress,
                 nlohmann::ordered_json* document);

}  // namespace baltoro::cli
