#include "engine/timeline.h"

#include <memory>

#include "core/error.h"
#include "ops/batch.h"

namespace baltoro {
namespace {

// Room for tokens and pages to come, so that decoding does not allocate for long stretches.
constexpr std::size_t kTokenReserve = 4096;

}  // namespace

Timeline::Timeline(StatePool& pool) : pool_(pool) {
  live_slot = pool.acquire_slot();
  boundary_slot = pool.acquire_slot();
  pool.state().clear_slot(live_slot);
}

Timeline::~Timeline() {
  pool_.release_slot(live_slot);
  pool_.release_slot(boundary_slot);
  for (std::int32_t page : pages) pool_.release_page(page);
}

std::unique_ptr<Timeline> Timeline::clone() const {
  auto copy = std::make_unique<Timeline>(pool_);
  copy->tokens = tokens;
  copy->logits = logits;
  copy->restart_pos = restart_pos;
  copy->prompt_is_open = prompt_is_open;
  copy->failure = failure;
  for (std::int32_t page : pages) {
    pool_.share_page(page);
    copy->pages.push_back(page);
  }
  pool_.state().copy_slot(copy->live_slot, live_slot);
  pool_.state().copy_slot(copy->boundary_slot, boundary_slot);
  return copy;
}

Feed Timeline::append(std::span<const TokenId> new_tokens, Origin origin) {
  Feed feed{.begin = position(), .end = 0};
  if (origin == Origin::kPrompt && prompt_is_open) {
    if (restart_pos != position()) pool_.state().copy_slot(live_slot, boundary_slot);
    feed.begin = restart_pos;
  } else if (origin == Origin::kPrompt) {
    pool_.state().copy_slot(boundary_slot, live_slot);
    restart_pos = position();
  }
  prompt_is_open = origin == Origin::kPrompt;
  if (tokens.capacity() - tokens.size() < new_tokens.size()) {
    tokens.reserve(tokens.size() + new_tokens.size() + kTokenReserve);
    pages.reserve(tokens.capacity() / kBlockTokens + 1);
  }
  tokens.insert(tokens.end(), new_tokens.begin(), new_tokens.end());
  feed.end = position();
  return feed;
}

void Timeline::own_pages(std::int64_t begin, std::int64_t end) {
  for (std::int64_t index = begin / kBlockTokens; index * kBlockTokens < end; ++index) {
    const auto i = static_cast<std::size_t>(index);
    if (i == pages.size()) {
      pages.push_back(pool_.acquire_page());
    } else if (pool_.is_shared(pages[i])) {
      const std::int32_t own = pool_.acquire_page();
      pool_.state().copy_page(own, pages[i]);
      pool_.release_page(pages[i]);
      pages[i] = own;
    }
  }
}

void Timeline::note_prompt_rows(std::int64_t begin, std::int64_t end) {
  const std::int64_t boundary = end / kBlockTokens * kBlockTokens;
  if (boundary > begin) restart_pos = boundary;
}

}  // namespace baltoro
