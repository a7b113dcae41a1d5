// A tiktoken rank file of any bytes: a vocabulary whose tokens are found again, or a typed error.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "baltoro/error.h"
#include "text/rank_file.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    const baltoro::Vocabulary vocabulary = baltoro::parse_rank_file(text, "tiktoken.model");
    if (vocabulary.size() < 256) std::abort();
    for (std::size_t id = 0; id < vocabulary.size(); ++id) {
      const auto token = static_cast<baltoro::TokenId>(id);
      if (vocabulary.find(vocabulary.token(token)) != token) std::abort();
    }
  } catch (const baltoro::Error& error) {
    if (error.code() != baltoro::ErrorCode::kBadModel) std::abort();
  }
  return 0;
}
