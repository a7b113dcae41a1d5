#include "measure/forward_batch.h"

#include <algorithm>
#include <chrono>
#include <span>

#include "engine/session_impl.h"
#include "measure/random_tokens.h"
#include "ops/batch.h"

namespace baltoro {
namespace {

// Tokens that are read before a batch stands at its depth; beyond, what was read is copied.
constexpr std::int64_t kReadByAll = 65'536;
constexpr std::int64_t kReadByFirst = 16'384;

// Streams of random tokens.
std::uint64_t past_of(std::size_t sequence) { return 2 * sequence; }
std::uint64_t next_of(std::size_t sequence) { return 2 * sequence + 1; }

}  // namespace

ForwardBatch::ForwardBatch(Engine& engine, std::int64_t size, std::int64_t depth)
    : engine_(engine) {
  const bool all_read = size * depth <= kReadByAll || depth % kBlockTokens != 0;
  for (std::size_t i = 0; i < static_cast<std::size_t>(size); ++i) {
    if (i > 0 && !all_read) {
      sessions_.push_back(SessionAccess::copy(sessions_.front()));
      continue;
    }
    sessions_.push_back(engine.new_session());
    if (depth == 0) continue;
    const std::int64_t read = all_read ? depth : std::min(depth, kReadByFirst);
    sessions_.back().prefill(random_tokens(engine.info().vocab_size, read, past_of(i)));
    if (read < depth) SessionAccess::repeat_past(sessions_.back(), depth);
  }
}

double ForwardBatch::run(std::int64_t count, std::int64_t tokens_a_pass, Origin origin) {
  std::vector<Session> sessions;
  std::vector<std::vector<TokenId>> ids;
  for (std::size_t i = 0; i < sessions_.size(); ++i) {
    sessions.push_back(sessions_[i].fork());
    ids.push_back(random_tokens(engine_.info().vocab_size, count, next_of(i)));
  }
  // Where logits are a device's, tokens are drawn there.
  const bool draws = origin == Origin::kGenerated && engine_.info().memory.device_limit > 0;
  const DrawRequest greedy{.temperature = 0};
  std::vector<BatchItem> items(sessions.size());
  const auto start = std::chrono::steady_clock::now();
  for (std::int64_t done = 0; done < count; done += tokens_a_pass) {
    for (std::size_t i = 0; i < items.size(); ++i) {
      items[i] = {.session = &sessions[i],
                  .tokens = std::span(ids[i]).subspan(static_cast<std::size_t>(done),
                                                      static_cast<std::size_t>(tokens_a_pass)),
                  .origin = origin,
                  .draw = draws ? &greedy : nullptr};
    }
    engine_.forward(items);
    for (const BatchItem& item : items) {
      if (item.error) throw *item.error;
    }
  }
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  return seconds.count();
}

}  // namespace baltoro
