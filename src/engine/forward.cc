// The one forward: cuts the items into passes of at most max_rows rows, prompts at absolute block
// boundaries, and hands out logits.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/error.h"
#include "engine/engine_impl.h"
#include "engine/session_impl.h"

namespace baltoro {
namespace {

// Logit rows computed at a time where all are wanted: bounds the buffer (64 x 163,840 x 4 B = 42 MB
// for K3).
constexpr std::int64_t kLogitRows = 64;

// Rows that a pass takes of an item with `room` left in the batch: prompts end at a block boundary
// or at their end, so that chunkwise attention always sees whole blocks.
std::int64_t rows_to_take(const ItemProgress& progress, std::int64_t room) {
  const std::int64_t left = progress.end - progress.next;
  if (left <= room) return left;
  if (progress.item->origin == Origin::kGenerated) return room;
  const std::int64_t boundary = (progress.next + room) / kBlockTokens * kBlockTokens;
  return std::max<std::int64_t>(0, boundary - progress.next);
}

}  // namespace

void Engine::Impl::check(std::span<const BatchItem> items) const {
  for (std::size_t i = 0; i < items.size(); ++i) {
    const BatchItem& item = items[i];
    BALTORO_CHECK(item.session != nullptr, "batch item {} has no session", i);
    for (std::size_t j = 0; j < i; ++j) {
      if (items[j].session == item.session) {
        fail(ErrorCode::kUsage, "batch items {} and {} are the same session; give each once", j, i);
      }
    }
    const Timeline& timeline = *item.session->impl_->timeline;
    if (!timeline.failure.empty()) {
      fail(ErrorCode::kUsage, "the session failed before: {}; start a new one", timeline.failure);
    }
    for (TokenId token : item.tokens) {
      if (token < 0 || token >= info.vocab_size) {
        fail(ErrorCode::kUsage, "token id {} is outside the vocabulary [0, {})", token,
             info.vocab_size);
      }
    }
  }
}

void Engine::Impl::start(std::span<BatchItem> items) {
  progress_.clear();
  for (BatchItem& item : items) {
    if (item.tokens.empty()) continue;
    Timeline& timeline = *item.session->impl_->timeline;
    const std::int64_t new_begin = timeline.position();
    const Feed feed = timeline.append(item.tokens, item.origin);
    progress_.push_back({&item, &timeline, feed.begin, feed.end, new_begin});
    if (item.all_logits != nullptr) {
      item.all_logits->clear();
      item.all_logits->reserve(item.tokens.size() * static_cast<std::size_t>(info.vocab_size));
    }
  }
}

bool Engine::Impl::plan_pass() {
  sequences_.clear();
  in_pass_.clear();
  token_ids_.clear();
  std::int64_t used = 0;
  for (ItemProgress& p : progress_) {
    const std::int64_t rows = rows_to_take(p, workspace.max_rows - used);
    if (rows == 0) continue;
    Timeline& t = *p.timeline;
    t.own_pages(p.next, p.next + rows);
    const bool is_prompt = p.item->origin == Origin::kPrompt;
    sequences_.push_back({.first_row = used,
                          .num_rows = rows,
                          .start_pos = p.next,
                          .state_slot = t.live_slot,
                          .boundary_slot = is_prompt ? t.boundary_slot : -1,
                          .origin = p.item->origin,
                          .pages = t.pages});
    in_pass_.push_back(&p);
    token_ids_.insert(token_ids_.end(), t.tokens.begin() + p.next,
                      t.tokens.begin() + p.next + rows);
    used += rows;
  }
  return used > 0;
}

void Engine::Impl::run_pass() {
  const BatchView batch{token_ids_, sequences_};
  const ConstTensorView normed = model.forward(*backend, batch, state, workspace);
  for (std::size_t i = 0; i < sequences_.size(); ++i) {
    finish_rows(*in_pass_[i], sequences_[i], normed);
  }
}

void Engine::Impl::finish_rows(ItemProgress& p, const SequenceRows& rows,
                               const ConstTensorView& normed) {
  p.next += rows.num_rows;
  if (rows.origin == Origin::kPrompt) p.timeline->note_prompt_rows(rows.start_pos, p.next);
  if (!check_finite(p, rows, {})) return;
  if (p.item->all_logits != nullptr) collect_all_logits(p, rows, normed);
  if (p.next < p.end || !p.item->session->impl_->timeline->failure.empty()) return;

  const auto last_row = static_cast<std::int32_t>(rows.first_row + rows.num_rows - 1);
  p.timeline->logits.resize(static_cast<std::size_t>(info.vocab_size));
  model.logits(*backend, normed, {&last_row, 1}, p.timeline->logits.data());
  check_finite(p, rows, p.timeline->logits);
}

void Engine::Impl::collect_all_logits(ItemProgress& p, const SequenceRows& rows,
                                      const ConstTensorView& normed) {
  const std::int64_t skip = std::max<std::int64_t>(0, p.new_begin - rows.start_pos);
  const auto vocab = static_cast<std::size_t>(info.vocab_size);
  for (std::int64_t begin = skip; begin < rows.num_rows; begin += kLogitRows) {
    const std::int64_t count = std::min(kLogitRows, rows.num_rows - begin);
    std::vector<std::int32_t> wanted(static_cast<std::size_t>(count));
    std::iota(wanted.begin(), wanted.end(), static_cast<std::int32_t>(rows.first_row + begin));
    logits_.resize(static_cast<std::size_t>(count) * vocab);
    model.logits(*backend, normed, wanted, logits_.data());
    if (!check_finite(p, rows, logits_)) return;
    p.item->all_logits->insert(p.item->all_logits->end(), logits_.begin(), logits_.end());
  }
}

bool Engine::Impl::check_finite(ItemProgress& p, const SequenceRows& rows,
                                std::span<const float> logits) {
  const std::int32_t* bad = workspace.first_bad.i32() + rows.first_row;
  std::int32_t first_tag = -1;
  for (std::int64_t r = 0; r < rows.num_rows; ++r) {
    if (bad[r] >= 0 && (first_tag < 0 || bad[r] < first_tag)) first_tag = bad[r];
  }
  const bool finite =
      std::all_of(logits.begin(), logits.end(), [](float v) { return std::isfinite(v); });
  if (first_tag < 0 && finite) return true;
  fail_item(p, first_tag);
  return false;
}

void Engine::Impl::fail_item(ItemProgress& p, std::int32_t bad_tag) {
  p.timeline->failure = fmt::format(
      "{} gave a NaN or an infinity at position {} or before; the weights or the input are damaged "
      "(baltoro inspect --verify checks the weights)",
      model.describe_bad_tag(bad_tag), p.next - 1);
  p.timeline->logits.clear();
  p.item->error = Error(ErrorCode::kNonFinite, p.timeline->failure);
  p.next = p.end;
}

void Engine::Impl::forward(std::span<BatchItem> items) {
  check(items);
  start(items);
  try {
    while (plan_pass()) run_pass();
  } catch (const Error& error) {
    // The tokens are in the timelines but not in the state: none of them may go on.
    for (ItemProgress& p : progress_) p.timeline->failure = error.what();
    throw;
  }
}

}  // namespace baltoro
