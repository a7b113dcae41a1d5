// A chat request of any bytes in each format: nothing that a client writes becomes a special id, or
// a typed error.
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "text/chat_test_util.h"

namespace {

using namespace baltoro;

void render(const Tokenizer& tokenizer, const Conversation& conversation) {
  const ChatFormat format(tokenizer, std::nullopt);
  try {
    const std::vector<TokenId> ids = format.render(conversation);
    std::vector<TokenId> controls;
    for (const PromptSegment& segment : format.segments(conversation)) {
      if (segment.kind != PromptSegment::Kind::kControl) continue;
      controls.push_back(tokenizer.special_id(segment.text).value());
    }
    std::vector<TokenId> specials;
    std::copy_if(ids.begin(), ids.end(), std::back_inserter(specials),
                 [&](TokenId id) { return tokenizer.is_special(id); });
    if (specials != controls) std::abort();
    format.parser(conversation).finish();
  } catch (const Error& error) {
    const ErrorCode code = error.code();
    if (code != ErrorCode::kUsage && code != ErrorCode::kUnsupported) std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const std::array kTokenizers = {byte_tokenizer(xtml_specials()),
                                         byte_tokenizer(k2_specials(false)),
                                         byte_tokenizer(k2_specials(true))};
  try {
    const Conversation conversation =
        parse_conversation(std::string_view(reinterpret_cast<const char*>(data), size));
    for (const Tokenizer& tokenizer : kTokenizers) render(tokenizer, conversation);
  } catch (const Error& error) {
    const ErrorCode code = error.code();
    if (code != ErrorCode::kUsage && code != ErrorCode::kUnsupported) std::abort();
  }
  return 0;
}
