// Any bytes as a schema: a typed error, or a grammar whose answers can go on and end. The first byte
// chooses the style; the second one seeds the choices among what the mask allows.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "baltoro/error.h"
#include "text/grammar_test_util.h"

namespace {

using namespace baltoro;

void answer(const std::shared_ptr<const TokenGrammar>& grammar, const Tokenizer& tokenizer,
            unsigned seed) {
  GrammarConstraint constraint(grammar, tokenizer);
  for (int step = 0; step < 24; ++step) {
    const std::vector<std::uint64_t> mask = mask_of(constraint, tokenizer);
    std::vector<TokenId> allowed;
    for (TokenId token = 0; token < tokenizer.vocab_size(); ++token) {
      if (has(mask, token)) allowed.push_back(token);
    }
    if (allowed.empty()) std::abort();
    seed = seed * 1664525 + 1013904223;
    constraint.accept(allowed[seed / 65536 % allowed.size()]);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const Tokenizer tokenizer = glued_tokenizer();
  if (size < 2) return 0;
  const SchemaStyle style{.lenient = (data[0] & 1) != 0, .closed = (data[0] & 2) != 0};
  const std::string_view schema(reinterpret_cast<const char*>(data) + 2, size - 2);
  try {
    const auto grammar = schema_tokens(schema, tokenizer, 257, style);
    for (unsigned i = 0; i < 3; ++i) answer(grammar, tokenizer, data[1] + 256 * i);
  } catch (const Error& error) {
    const ErrorCode code = error.code();
    if (code != ErrorCode::kUsage && code != ErrorCode::kUnsupported) std::abort();
  }
  return 0;
}
