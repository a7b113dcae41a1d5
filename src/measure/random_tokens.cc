#include "measure/random_tokens.h"

#include "core/rng.h"

namespace baltoro {

std::vector<TokenId> random_tokens(std::int64_t vocab_size, std::int64_t count,
                                   std::uint64_t stream) {
  constexpr std::uint64_t kSeed = 3;
  const Philox random(kSeed, stream);
  std::vector<TokenId> ids;
  ids.reserve(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i) {
    const std::uint64_t word = random.block(static_cast<std::uint64_t>(i))[0];
    ids.push_back(static_cast<TokenId>(word * static_cast<std::uint64_t>(vocab_size) >> 32));
  }
  return ids;
}

}  // namespace baltoro
