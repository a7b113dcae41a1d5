// The one forward: cuts the items into passes of at most max_rows rows, prompts at absolute block
// boundaries, and hands out logits.
#include <algorithm>
#include <new>
#include <numeric>

#include "core/error.h"
#include "engine/engine_impl.h"
#include "engine/session_impl.h"
#include "engine/working_memory.h"
#include "ops/head.h"

namespace baltoro {
namespace {

// Logit rows computed at a time where all are wanted: bounds the buffer (64 x 163,840 x 4 B = 42 MB
// for K3).
constexpr std::size_t kLogitRows = 64;

// Rows that are drawn at a time; their logits stay with the backend.
constexpr std::size_t kDrawRows = 128;

// Rows that a pass takes of an item with `room` left in the batch: prompts end at a block boundary
// or at their end, so that chunkwise attention always sees whole blocks.
std::int64_t rows_to_take(const ItemProgress& progress, std::int64_t room) {
  const std::int64_t left = progress.end - progress.next;
  if (left <= room) return left;
  if (progress.item->origin == Origin::kGenerated) return room;
  const std::int64_t boundary = (progress.next + room) / kBlockTokens * kBlockTokens;
  return std::max<std::int64_t>(0, boundary - progress.next);
}

void check_draw(const DrawRequest& draw) {
  constexpr auto kMostTopK = static_cast<std::int64_t>(kDrawDepth);
  if (draw.top_k < 0 || draw.top_k > kMostTopK) {
    fail(ErrorCode::kUsage, "a draw has a top_k of {}; it must be in [0, {}] (0 is off)",
         draw.top_k, kMostTopK);
  }
  if (!(draw.temperature >= 0 && draw.part >= 0 && draw.part < 1)) {
    fail(ErrorCode::kUsage,
         "a draw has temperature {} and random number {}; they must be at least 0 and in [0, 1)",
         draw.temperature, draw.part);
  }
}

}  // namespace

void Engine::Impl::check(std::span<const BatchItem> items) const {
  for (std::size_t i = 0; i < items.size(); ++i) {
    const BatchItem& item = items[i];
    if (item.session == nullptr || item.session->impl_ == nullptr) {
      fail(ErrorCode::kUsage, "batch item {} has no session", i);
    }
    for (std::size_t j = 0; j < i; ++j) {
      if (items[j].session == item.session) {
        fail(ErrorCode::kUsage, "batch items {} and {} are the same session; give each once", j, i);
      }
    }
    const Timeline& timeline = *item.session->impl_->timeline;
    if (&timeline.pool() != &pool) {
      fail(ErrorCode::kUsage, "the session of batch item {} belongs to another engine", i);
    }
    if (!timeline.failure.empty()) {
      fail(ErrorCode::kUsage, "the session failed before: {}; start a new one", timeline.failure);
    }
    if (item.draw != nullptr) check_draw(*item.draw);
    for (TokenId token : item.tokens) {
      if (token < 0 || token >= info.vocab_size) {
        fail(ErrorCode::kUsage, "token id {} is outside the vocabulary [0, {})", token,
             info.vocab_size);
      }
    }
  }
}

void Engine::Impl::start(std::span<BatchItem> items) {
  progress_.reserve(items.size());
  for (BatchItem& item : items) {
    if (item.all_logits != nullptr) {
      item.all_logits->clear();
      item.all_logits->reserve(item.tokens.size() * static_cast<std::size_t>(info.vocab_size));
    }
    item.drawn.reset();
    if (item.tokens.empty()) continue;
    Timeline& timeline = *item.session->impl_->timeline;
    const std::int64_t new_begin = timeline.position();
    try {
      const Feed feed = timeline.append(item.tokens, item.origin);
      progress_.push_back({&item, &timeline, feed.begin, feed.end, new_begin});
    } catch (const std::bad_alloc&) {
      item.error = Error(ErrorCode::kOutOfMemory, "out of memory for the state of a sequence");
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kOutOfMemory) throw;
      item.error = error;
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

void Engine::Impl::yield_to_state() {
  if (mapped == nullptr) return;
  // Of the host's memory.
  const std::int64_t layers = info.num_layers - info.memory.device_layers;
  const StateBytes bytes = state.bytes_of(0, static_cast<std::size_t>(layers));
  const std::uint64_t used = static_cast<std::uint64_t>(pool.slots_in_use()) * bytes.slot +
                             static_cast<std::uint64_t>(pool.pages_in_use()) * bytes.page;
  const std::uint64_t planned = planned_state_bytes(bytes);
  mapped->yield_to_state(used > planned ? used - planned : 0);
}

void Engine::Impl::run_pass() {
  const bool draws = draws_in_pass();
  BatchView batch{token_ids_, sequences_};
  if (draws) {
    batch.draws = draws_;
    batch.drawn = drawn();
  }
  yield_to_state();
  const ConstTensorView normed = model.forward(segments, batch, state, mapped.get());
  // Where only last rows are wanted of all items, the head need not wait until the rows are checked.
  const bool head_follows = all_end_in_pass();
  if (!head_follows) backend->synchronize();
  finished_.clear();
  for (std::size_t i = 0; i < sequences_.size(); ++i) {
    const SequenceRows& rows = sequences_[i];
    ItemProgress& p = *in_pass_[i];
    p.next += rows.num_rows;
    if (rows.origin == Origin::kPrompt) p.timeline->note_prompt_rows(rows.start_pos, p.next);
    if (!head_follows && !check_rows(p, rows, true)) continue;
    if (p.item->all_logits != nullptr && !collect_all_logits(p, rows, normed)) continue;
    if (p.next < p.end) continue;
    if (!p.item->last_logits) {
      p.timeline->logits.clear();
      continue;
    }
    finished_.push_back(i);
  }
  if (draws) {
    collect_drawn(0, finished_.size());
  } else {
    finish_items(normed);
  }
}

bool Engine::Impl::draws_in_pass() {
  const DrawRequest* const first = in_pass_.front()->item->draw;
  if (first == nullptr || in_pass_.size() > kDrawRows || !all_end_in_pass()) return false;
  for (std::size_t i = 0; i < sequences_.size(); ++i) {
    const SequenceRows& rows = sequences_[i];
    const DrawRequest* const draw = in_pass_[i]->item->draw;
    if (rows.origin != Origin::kGenerated || rows.num_rows != 1 || draw == nullptr ||
        !std::ranges::equal(draw->banned, first->banned)) {
      return false;
    }
  }
  finished_.resize(sequences_.size());
  std::iota(finished_.begin(), finished_.end(), std::size_t{0});
  plan_draws(finished_);
  return true;
}

bool Engine::Impl::all_end_in_pass() const {
  for (std::size_t i = 0; i < sequences_.size(); ++i) {
    const ItemProgress& p = *in_pass_[i];
    const bool ends = p.next + sequences_[i].num_rows == p.end;
    if (!ends || !p.item->last_logits || p.item->all_logits != nullptr) return false;
  }
  return true;
}

// Room for the logits of many rows, which the head fills.
std::span<float> Engine::Impl::logit_rows(std::size_t count) {
  const std::size_t values = count * static_cast<std::size_t>(info.vocab_size);
  if (logits_.bytes() < values * sizeof(float)) {
    logits_ = backend->allocate_shared(values * sizeof(float), "logits");
  }
  return {logits_.f32(), values};
}

// The head of rows of `normed`; which of them are bad is in the result until the next call.
std::span<const std::int32_t> Engine::Impl::run_head(const ConstTensorView& normed,
                                                     std::span<const std::int32_t> rows,
                                                     std::span<float> logits) {
  const std::span<std::int32_t> bad = bad_rows(rows.size());
  model.logits(*backend, normed, rows, logits.data(), bad.data());
  return bad;
}

std::span<std::int32_t> Engine::Impl::bad_rows(std::size_t count) {
  const std::size_t bytes = kLogitRows * sizeof(std::int32_t);
  if (bad_logits_.bytes() < bytes) bad_logits_ = backend->allocate_shared(bytes, "bad logits");
  return {static_cast<std::int32_t*>(bad_logits_.data()), count};
}

std::span<float> Engine::Impl::logits_of(std::size_t sequence) {
  return in_pass_[sequence]->timeline->logits.fill(*backend,
                                                   static_cast<std::size_t>(info.vocab_size));
}

const std::uint8_t* Engine::Impl::banned_mask(std::span<const TokenId> banned) {
  if (banned.empty()) return nullptr;
  if (std::ranges::equal(banned, banned_)) return static_cast<std::uint8_t*>(banned_mask_.data());
  std::vector<std::uint8_t> mask(static_cast<std::size_t>(info.vocab_size));
  for (const TokenId token : banned) {
    if (token < info.vocab_size) mask[static_cast<std::size_t>(token)] = 1;
  }
  banned_.clear();
  if (banned_mask_.bytes() == 0) {
    banned_mask_ = backend->allocate(mask.size(), "tokens that are not allowed");
  }
  backend->copy(banned_mask_.data(), mask.data(), mask.size());
  banned_.assign(banned.begin(), banned.end());
  return static_cast<std::uint8_t*>(banned_mask_.data());
}

// The head reads its weights once for all items that end in this pass and want the same of it.
void Engine::Impl::finish_items(const ConstTensorView& normed) {
  if (mapped != nullptr && !finished_.empty()) mapped->enter_head();
  const auto item_of = [&](std::size_t sequence) { return in_pass_[sequence]->item; };
  // One list of banned tokens serves a pass; items with another take all logits.
  const DrawRequest* first = nullptr;
  const auto draws = [&](std::size_t sequence) {
    const DrawRequest* draw = item_of(sequence)->draw;
    if (draw == nullptr) return false;
    if (first == nullptr) first = draw;
    return std::ranges::equal(draw->banned, first->banned);
  };
  std::vector<std::size_t>& list = finished_;
  const auto whole =
      std::partition(list.begin(), list.end(), [&](std::size_t s) { return !draws(s); });
  last_rows_.clear();
  for (const std::size_t sequence : finished_) {
    const SequenceRows& rows = sequences_[sequence];
    last_rows_.push_back(static_cast<std::int32_t>(rows.first_row + rows.num_rows - 1));
  }
  const auto num_whole = static_cast<std::size_t>(whole - list.begin());
  for (std::size_t begin = 0; begin < num_whole; begin += kLogitRows) {
    finish_whole(normed, begin, std::min(begin + kLogitRows, num_whole));
  }
  for (std::size_t begin = num_whole; begin < list.size(); begin += kDrawRows) {
    finish_drawn(normed, begin, std::min(begin + kDrawRows, list.size()));
  }
}

Drawn* Engine::Impl::drawn() {
  if (drawn_.bytes() == 0) {
    drawn_ = backend->allocate_shared(kDrawRows * sizeof(Drawn), "drawn tokens");
  }
  return static_cast<Drawn*>(drawn_.data());
}

void Engine::Impl::plan_draws(std::span<const std::size_t> sequences) {
  const std::uint8_t* banned = banned_mask(in_pass_[sequences.front()]->item->draw->banned);
  draws_.clear();
  for (const std::size_t sequence : sequences) {
    const DrawRequest& draw = *in_pass_[sequence]->item->draw;
    draws_.push_back({.banned = banned,
                      .part = draw.part,
                      .top_k = static_cast<std::int32_t>(draw.top_k),
                      .temperature = draw.temperature,
                      .top_p = draw.top_p,
                      .min_p = draw.min_p});
  }
}

void Engine::Impl::finish_drawn(const ConstTensorView& normed, std::size_t begin, std::size_t end) {
  plan_draws(std::span(finished_).subspan(begin, end - begin));
  model.draw(*backend, {.x = normed,
                        .rows = std::span(last_rows_).subspan(begin, end - begin),
                        .weight = {},
                        .draws = draws_,
                        .drawn = drawn()});
  collect_drawn(begin, end);
}

void Engine::Impl::collect_drawn(std::size_t begin, std::size_t end) {
  backend->synchronize();
  for (std::size_t i = begin; i < end; ++i) {
    const std::size_t sequence = finished_[i];
    const Drawn& seen = drawn()[i - begin];
    ItemProgress& p = *in_pass_[sequence];
    if (!check_rows(p, sequences_[sequence], seen.bad == 0)) continue;
    if (seen.token >= 0) {
      p.item->drawn = {seen.token, seen.logprob};
      p.timeline->logits.clear();
    } else {
      backend->fetch_logits(i - begin, logits_of(sequence));
    }
  }
}

void Engine::Impl::finish_whole(const ConstTensorView& normed, std::size_t begin, std::size_t end) {
  const auto vocab = static_cast<std::size_t>(info.vocab_size);
  const std::size_t count = end - begin;
  const std::span<const std::int32_t> rows = std::span(last_rows_).subspan(begin, count);
  // One row goes where it stays.
  const std::span<float> logits = count == 1 ? logits_of(finished_[begin]) : logit_rows(count);
  const std::span<const std::int32_t> bad = run_head(normed, rows, logits);
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t sequence = finished_[begin + i];
    if (!check_rows(*in_pass_[sequence], sequences_[sequence], bad[i] == 0) || count == 1) {
      continue;
    }
    std::ranges::copy(logits.subspan(i * vocab, vocab), logits_of(sequence).begin());
  }
}

bool Engine::Impl::collect_all_logits(ItemProgress& p, const SequenceRows& rows,
                                      const ConstTensorView& normed) {
  const std::int64_t skip = std::max<std::int64_t>(0, p.new_begin - rows.start_pos);
  if (mapped != nullptr) mapped->enter_head();
  for (std::int64_t begin = skip; begin < rows.num_rows; begin += kLogitRows) {
    const std::int64_t count = std::min<std::int64_t>(kLogitRows, rows.num_rows - begin);
    std::vector<std::int32_t> wanted(static_cast<std::size_t>(count));
    std::iota(wanted.begin(), wanted.end(), static_cast<std::int32_t>(rows.first_row + begin));
    const std::span<float> logits = logit_rows(wanted.size());
    const std::span<const std::int32_t> bad = run_head(normed, wanted, logits);
    const bool finite = std::ranges::all_of(bad, [](std::int32_t b) { return b == 0; });
    if (!check_rows(p, rows, finite)) return false;
    p.item->all_logits->insert(p.item->all_logits->end(), logits.begin(), logits.end());
  }
  return true;
}

bool Engine::Impl::check_rows(ItemProgress& p, const SequenceRows& rows, bool finite_logits) {
  const std::int32_t* bad = workspace.first_bad() + rows.first_row;
  std::int32_t first_tag = -1;
  for (std::int64_t r = 0; r < rows.num_rows; ++r) {
    if (bad[r] >= 0 && (first_tag < 0 || bad[r] < first_tag)) first_tag = bad[r];
  }
  if (first_tag < 0 && finite_logits) return true;
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

// Whatever stops a forward leaves tokens in the timelines that are not in the state: none goes on.
void Engine::Impl::forward(std::span<BatchItem> items) {
  check(items);
  progress_.clear();
  const auto fail_all = [&](const char* why) {
    for (ItemProgress& p : progress_) p.timeline->failure = why;
  };
  constexpr const char* kShort = "out of memory";  // needs none itself
  try {
    start(items);
    while (plan_pass()) run_pass();
  } catch (const std::bad_alloc&) {
    fail_all(kShort);
    fail(ErrorCode::kOutOfMemory, "a forward pass over {} items ran out of memory", items.size());
  } catch (const std::exception& error) {
    fail_all(kShort);
    fail_all(error.what());
    throw;
  }
}

}  // namespace baltoro
