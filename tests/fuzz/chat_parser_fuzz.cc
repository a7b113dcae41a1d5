// Any stream of ids into the parsers of answers: the deltas put together are the result, and nothing
// crashes. The first byte chooses the format; of the others, one below 128 is a special id, two make
// any id.
#include <array>
#include <cstdint>
#include <cstdlib>

#include "text/chat_test_util.h"

namespace {

using namespace baltoro;

void parse(const Tokenizer& tokenizer, const std::uint8_t* data, std::size_t size) {
  const ChatFormat format(tokenizer, std::nullopt);
  AnswerReader reader(format, {});
  const int specials = tokenizer.vocab_size() - tokenizer.num_ranks();
  for (std::size_t i = 0; i < size; ++i) {
    TokenId id = tokenizer.num_ranks() + data[i] % specials;
    if (data[i] >= 128 && i + 1 < size) {
      id = (data[i] * 256 + data[i + 1]) % tokenizer.vocab_size();
      ++i;
    }
    reader.feed({id});
  }
  reader.finish();
  if (!reader.disagreement().empty()) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const std::array kTokenizers = {committed_tokenizer(), byte_tokenizer(k2_specials(false)),
                                         byte_tokenizer(k2_specials(true))};
  if (size > 0) parse(kTokenizers[data[0] % kTokenizers.size()], data + 1, size - 1);
  return 0;
}
