// Input of benchmarks: ids that are the same in every run.
#pragma once

#include <cstdint>
#include <vector>

#include "baltoro/types.h"

namespace baltoro {

// `count` ids uniform in [0, vocab_size); other streams are independent.
std::vector<TokenId> random_tokens(std::int64_t vocab_size, std::int64_t count,
                                   std::uint64_t stream);

}  // namespace baltoro
