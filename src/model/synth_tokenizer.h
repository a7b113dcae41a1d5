// The toy tokenizer of a synthetic checkpoint: all bytes and joins of common letters as a tiktoken
// rank file, special tokens at the released places behind bos_token_id.
#pragma once

#include <filesystem>

#include "model/config.h"

namespace baltoro {

// Writes tiktoken.model, tokenizer_config.json and generation_config.json. False, and nothing
// written, where the vocabulary leaves no room for 256 bytes and 16 special tokens. Throws
// Error{kIo}.
bool write_synth_tokenizer(const ModelConfig& config, const std::filesystem::path& dir);

}  // namespace baltoro
