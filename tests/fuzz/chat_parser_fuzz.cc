// Any stream of ids into the parser of answers: the deltas put together are the result, and nothing
// crashes. A byte below 128 is a structural id, two others make any id.
#include <cstdint>
#include <cstdlib>
#include <string>

#include "baltoro/chat.h"
#include "baltoro/tokenizer.h"

namespace {

struct Sum {
  std::string reasoning;
  std::string content;

  void add(const std::vector<baltoro::ChatDelta>& deltas) {
    for (const baltoro::ChatDelta& delta : deltas) {
      if (delta.kind == baltoro::ChatDelta::Kind::kReasoning) reasoning += delta.text;
      if (delta.kind == baltoro::ChatDelta::Kind::kContent) content += delta.text;
    }
  }
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const baltoro::Tokenizer tokenizer =
      baltoro::Tokenizer::load(std::string(BALTORO_TEST_DATA) + "/tokenizer");
  static const baltoro::ChatFormat format(tokenizer, std::nullopt);
  baltoro::ChatParser parser = format.parser({});
  Sum sum;
  const int specials = tokenizer.vocab_size() - tokenizer.num_ranks();
  for (std::size_t i = 0; i < size; ++i) {
    int id = tokenizer.num_ranks() + data[i] % specials;
    if (data[i] >= 128 && i + 1 < size) {
      id = (data[i] * 256 + data[i + 1]) % tokenizer.vocab_size();
      ++i;
    }
    sum.add(parser.feed(id));
  }
  sum.add(parser.finish());
  const baltoro::ChatResult& result = parser.result();
  if (sum.reasoning != result.reasoning || sum.content != result.content) std::abort();
  return 0;
}
