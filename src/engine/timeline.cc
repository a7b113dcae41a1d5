#include "engine/timeline.h"

#include <memory>

#include "core/error.h"
#include "ops/batch.h"

namespace baltoro {
namespace {

// Room for tokens and pages to come, so that decoding does not allocate for long stretches.
constexpr std::size_t kTokenReserve = 4096;

}  // namespace

Timeline::Timeline(StatePool& pool) : Timeline(pool, NoState{}) {
  live_slot = pool.acquire_slot();
  pool.state().clear_slot(live_slot);
}

Timeline::~Timeline() {
  for (std::int32_t slot : {live_slot, boundary_slot}) {
    if (slot >= 0) pool_.release_slot(slot);
  }
  for (std::int32_t page : pages) pool_.release_page(page);
}

std::unique_ptr<Timeline> Timeline::clone() const {
  std::unique_ptr<Timeline> copy(new Timeline(pool_, NoState{}));
  copy->tokens = tokens;
  copy->logits.assign(pool_.state().backend(), logits.values());
  copy->restart_pos = restart_pos;
  copy->prompt_is_open = prompt_is_open;
  copy->failure = failure;
  copy->pages.reserve(pages.size());
  for (std::int32_t page : pages) {
    pool_.share_page(page);
    copy->pages.push_back(page);
  }
  copy->live_slot = pool_.acquire_slot();
  pool_.state().copy_slot(copy->live_slot, live_slot);
  if (needs_boundary()) {
    copy->make_boundary_slot();
    pool_.state().copy_slot(copy->boundary_slot, boundary_slot);
  }
  return copy;
}

void Timeline::make_boundary_slot() {
  if (boundary_slot < 0) boundary_slot = pool_.acquire_slot();
}

Feed Timeline::append(std::span<const TokenId> new_tokens, Origin origin) {
  const bool is_prompt = origin == Origin::kPrompt;
  const bool starts_over = is_prompt && needs_boundary();
  const bool opens = is_prompt && !starts_over && (!prompt_is_open || boundary_slot < 0);
  const Feed feed{.begin = starts_over ? restart_pos : position(),
                  .end = position() + static_cast<std::int64_t>(new_tokens.size())};
  // What may fail for want of memory comes first.
  if (tokens.capacity() - tokens.size() < new_tokens.size()) {
    tokens.reserve(tokens.size() + new_tokens.size() + kTokenReserve);
    pages.reserve(tokens.capacity() / kBlockTokens + 1);
  }
  own_pages(feed.begin, feed.end);
  if (opens) make_boundary_slot();

  if (!is_prompt) release_boundary_slot();
  if (starts_over) pool_.state().copy_slot(live_slot, boundary_slot);
  if (opens) {
    pool_.state().copy_slot(boundary_slot, live_slot);
    restart_pos = position();
  }
  prompt_is_open = is_prompt;
  tokens.insert(tokens.end(), new_tokens.begin(), new_tokens.end());
  return feed;
}

void Timeline::close_prompt() {
  release_boundary_slot();
  prompt_is_open = false;
}

void Timeline::release_boundary_slot() {
  if (boundary_slot >= 0) pool_.release_slot(boundary_slot);
  boundary_slot = -1;
}

void Timeline::own_pages(std::int64_t begin, std::int64_t end) {
  pages.reserve(static_cast<std::size_t>((end + kBlockTokens - 1) / kBlockTokens));
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

void Timeline::repeat_past(std::int64_t to) {
  const std::size_t period = tokens.size();
  tokens.reserve(static_cast<std::size_t>(to) + kTokenReserve);
  own_pages(position(), to);
  for (std::size_t i = period / kBlockTokens; i < pages.size(); ++i) {
    pool_.state().copy_page(pages[i], pages[i - period / kBlockTokens]);
  }
  while (position() < to) tokens.push_back(tokens[tokens.size() - period]);
  restart_pos = to;
}

void Timeline::note_prompt_rows(std::int64_t begin, std::int64_t end) {
  const std::int64_t boundary = end / kBlockTokens * kBlockTokens;
  if (boundary > begin) restart_pos = boundary;
}

}  // namespace baltoro
