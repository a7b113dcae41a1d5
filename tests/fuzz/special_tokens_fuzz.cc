// A tokenizer_config.json of any bytes: special tokens that are found by their names, alone and in
// a text, or a typed error. The first byte chooses where the ids begin.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "baltoro/error.h"
#include "text/special_tokens.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const baltoro::TokenId first_id = data[0] % 4 * 1000;
  const std::string_view text(reinterpret_cast<const char*>(data + 1), size - 1);
  try {
    const auto specials = baltoro::parse_special_tokens(text, first_id, "tokenizer_config.json");
    if (specials.first_id() != first_id || specials.end_id() <= first_id) std::abort();
    // A block may have 65536 names of one length: a few at both ends stand for all.
    for (baltoro::TokenId id = first_id; id < specials.end_id(); ++id) {
      if (id - first_id >= 20 && specials.end_id() - id > 20) continue;
      const std::string name(specials.name(id));
      if (specials.find(name) != id) std::abort();
      const auto match = specials.next_match("\xff" + name, 0);
      if (!match || match->begin > 1 || match->bytes < 1) std::abort();
    }
  } catch (const baltoro::Error& error) {
    if (error.code() != baltoro::ErrorCode::kBadModel) std::abort();
  }
  return 0;
}
