// Writes a checkpoint with random weights for any configuration, in the released layout:
// config.json as given, safetensors (with an index where sharded), and a small byte-complete
// tokenizer. Without the vision tower.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>

namespace baltoro {

struct SynthOptions {
  std::uint64_t seed = 1;
  int num_shards = 1;  // whole layers stay together
  bool write_tokenizer = true;
  bool hollow = false;  // matrices are holes in the files: for place_random_weights() alone
  std::function<void(std::uint64_t bytes_done, std::uint64_t bytes_total)> progress = {};
};

struct SynthReport {
  std::int64_t num_tensors = 0;
  std::uint64_t bytes = 0;
  bool has_tokenizer = false;  // false where the vocabulary is too small for one
};

// `config` is a config.json or a directory with one; `out` is created, or must not hold a model. The
// bytes of a tensor depend on seed, name and shape alone. Holds one block of a tensor in memory.
// Throws as load_config, Error{kUsage} for num_shards outside of 1 to num_layers + 2 and for an
// `out` with weights, an index or a config.json, Error{kDoesNotFit} before the first byte where the
// disk has no room, Error{kIo}.
SynthReport synthesize(const std::filesystem::path& config, const std::filesystem::path& out,
                       const SynthOptions& options = {});

}  // namespace baltoro
