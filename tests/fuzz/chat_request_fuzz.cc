// A chat request of any bytes in each format: nothing that a client writes becomes a special id, or
// a typed error.
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string_view>
#include <vector>

#include "text/chat_test_util.h"

namespace {

using namespace baltoro;

void render(const Tokenizer& tokenizer, const ChatFormat& format,
            const Conversation& conversation) {
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
    if (const auto constraint = format.constraint(conversation)) {
      std::vector<std::uint64_t> mask(static_cast<std::size_t>(tokenizer.vocab_size() + 63) / 64);
      constraint->allow(mask);
      const bool any = std::ranges::any_of(mask, [](std::uint64_t word) { return word != 0; });
      if (!any) std::abort();
    }
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
  static const std::array kFormats = {ChatFormat(kTokenizers[0], std::nullopt),
                                      ChatFormat(kTokenizers[1], std::nullopt),
                                      ChatFormat(kTokenizers[2], std::nullopt)};
  try {
    const Conversation conversation =
        parse_conversation(std::string_view(reinterpret_cast<const char*>(data), size));
    for (std::size_t i = 0; i < kFormats.size(); ++i) {
      render(kTokenizers[i], kFormats[i], conversation);
    }
  } catch (const Error& error) {
    const ErrorCode code = error.code();
    if (code != ErrorCode::kUsage && code != ErrorCode::kUnsupported) std::abort();
  }
  return 0;
}
