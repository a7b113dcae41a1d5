#include <utility>

#include "baltoro/tokenizer.h"
#include "text/utf8.h"

namespace baltoro {

StreamDecoder::StreamDecoder(Tokenizer tokenizer, InvalidUtf8 invalid)
    : tokenizer_(std::move(tokenizer)), invalid_(invalid) {}

std::string StreamDecoder::feed(TokenId id) {
  pending_ += tokenizer_.token_bytes(id);
  return take_complete_utf8(pending_, invalid_);
}

std::string StreamDecoder::finish() {
  std::string rest = std::exchange(pending_, {});
  if (rest.empty() || invalid_ == InvalidUtf8::kKeep) return rest;
  return "\xEF\xBF\xBD";
}

}  // namespace baltoro
