#include "text/grammar/stack_set.h"

#include <algorithm>

namespace baltoro {
namespace {

std::size_t idx(std::int32_t i) { return static_cast<std::size_t>(i); }

}  // namespace

StackSpace::StackSpace(const Grammar& grammar)
    : grammar_(grammar), top_slots_(grammar.num_states()), frame_slots_(grammar.num_edges()) {
  frames_.push_back({0, kNone, kNone});
  bottom_ = new_list(kBottomFrame, kNone);
}

void StackSpace::open() {
  ++set_;
  open_ = {tops_.size(), tops_.size(), false};
}

void StackSpace::add(StateId state, std::int32_t parents) {
  Slot& slot = top_slots_[idx(state)];
  if (slot.set != set_) {
    slot = {set_, static_cast<std::int32_t>(tops_.size())};
    if (!grammar_.is_plain(state)) work_.push_back(tops_.size());
    tops_.push_back({state, parents});
    return;
  }
  StackTop& top = tops_[idx(slot.place)];
  const std::int32_t merged = merge(top.parents, parents);
  if (merged == top.parents) return;
  top.parents = merged;
  if (!grammar_.is_plain(state)) work_.push_back(idx(slot.place));
}

void StackSpace::pop(std::int32_t parents) {
  for (std::int32_t i = parents; i != kNone; i = links_[idx(i)].next) {
    const std::int32_t frame = links_[idx(i)].frame;
    if (frame == kBottomFrame) {
      open_.complete = true;
    } else {
      // No rule is empty, so the frame is older than this set and will not change any more.
      add(frames_[idx(frame)].state, frames_[idx(frame)].parents);
    }
  }
}

StackSpace::Range StackSpace::close() {
  while (!work_.empty()) {
    const std::size_t top = work_.back();
    work_.pop_back();
    expand(top);
  }
  open_.end = tops_.size();
  return open_;
}

StackSpace::Range StackSpace::single(StateId state) {
  tops_.push_back({state, bottom_});
  return {tops_.size() - 1, tops_.size(), false};
}

void StackSpace::expand(std::size_t top) {
  const auto [state, parents] = tops_[top];
  for (const GrammarEdge& edge : grammar_.edges(state)) {
    if (edge.kind == GrammarEdge::Kind::kSkip) {
      add(edge.target, parents);
    } else if (edge.kind == GrammarEdge::Kind::kCall) {
      add(edge.value, edge.is_tail ? parents : call_frame(edge, parents));
    }
  }
  if (grammar_.is_final(state)) pop(parents);
}

// The list with the one frame of this call.
std::int32_t StackSpace::call_frame(const GrammarEdge& call, std::int32_t parents) {
  Slot& slot = frame_slots_[grammar_.index_of(call)];
  if (slot.set != set_) {
    slot = {set_, static_cast<std::int32_t>(frames_.size())};
    const std::int32_t self = new_list(slot.place, kNone);
    frames_.push_back({call.target, parents, self});
    return self;
  }
  Frame& frame = frames_[idx(slot.place)];
  frame.parents = merge(frame.parents, parents);
  return frame.self;
}

std::int32_t StackSpace::new_list(std::int32_t frame, std::int32_t next) {
  links_.push_back({frame, next});
  return static_cast<std::int32_t>(links_.size()) - 1;
}

bool StackSpace::contains(std::int32_t list, std::int32_t frame) const {
  for (; list != kNone; list = links_[idx(list)].next) {
    if (links_[idx(list)].frame == frame) return true;
  }
  return false;
}

// `list` with what only `more` has before it; `list` itself where there is nothing of the kind.
std::int32_t StackSpace::merge(std::int32_t list, std::int32_t more) {
  if (list == more) return list;
  std::int32_t merged = list;
  for (; more != kNone; more = links_[idx(more)].next) {
    const std::int32_t frame = links_[idx(more)].frame;
    if (!contains(merged, frame)) merged = new_list(frame, merged);
  }
  return merged;
}

// Most steps go from one stack to one stack, within a rule; they need no merging.
bool StackSpace::step_within_rule(Range from, std::uint8_t byte, Range& to) {
  if (from.end - from.begin != 1) return false;
  const auto [state, parents] = tops_[from.begin];
  if (!grammar_.is_deterministic(state)) return false;
  to = {tops_.size(), tops_.size(), false};
  for (const GrammarEdge& edge : grammar_.edges(state)) {
    if (edge.kind != GrammarEdge::Kind::kBytes || byte < edge.low || byte > edge.high) continue;
    if (!grammar_.is_plain(edge.target)) return false;
    tops_.push_back({edge.target, parents});
    ++to.end;
    return true;
  }
  return true;
}

StackSpace::Range StackSpace::read_byte(Range from, std::uint8_t byte) {
  if (Range to; step_within_rule(from, byte, to)) return to;
  open();
  for (std::size_t i = from.begin; i < from.end; ++i) {
    const auto [state, parents] = tops_[i];
    for (const GrammarEdge& edge : grammar_.edges(state)) {
      const bool fits =
          edge.kind == GrammarEdge::Kind::kBytes && byte >= edge.low && byte <= edge.high;
      if (fits) add(edge.target, parents);
    }
  }
  return close();
}

StackSpace::Range StackSpace::read_token(Range from, TokenId token) {
  open();
  for (std::size_t i = from.begin; i < from.end; ++i) {
    const auto [state, parents] = tops_[i];
    for (const GrammarEdge& edge : grammar_.edges(state)) {
      const bool fits = edge.kind == GrammarEdge::Kind::kToken && edge.value == token;
      if (fits) add(edge.target, parents);
    }
  }
  return close();
}

StackSpace::Range StackSpace::keep_only(Range range) {
  const auto begin = tops_.begin() + static_cast<std::ptrdiff_t>(range.begin);
  const auto end = tops_.begin() + static_cast<std::ptrdiff_t>(range.end);
  tops_.erase(std::move(begin, end, tops_.begin()), tops_.end());
  const Range moved{0, tops_.size(), range.complete};
  if (frames_.size() > frames_limit_ || links_.size() > links_limit_) give_up_frames(moved);
  return moved;
}

// Cuts the arena behind the last frame and the last link that the set reaches.
void StackSpace::give_up_frames(Range range) {
  std::int32_t last_frame = kBottomFrame, last_link = bottom_;
  frame_seen_.assign(frames_.size(), false);
  const auto visit = [&](std::int32_t list) {
    for (; list != kNone; list = links_[idx(list)].next) {
      const std::int32_t frame = links_[idx(list)].frame;
      last_link = std::max(last_link, list);
      if (frame_seen_[idx(frame)]) continue;
      frame_seen_[idx(frame)] = true;
      frame_work_.push_back(frame);
    }
  };
  for (std::size_t i = range.begin; i < range.end; ++i) visit(tops_[i].parents);
  while (!frame_work_.empty()) {
    const std::int32_t frame = frame_work_.back();
    frame_work_.pop_back();
    last_frame = std::max(last_frame, frame);
    last_link = std::max(last_link, frames_[idx(frame)].self);
    visit(frames_[idx(frame)].parents);
  }
  frames_.resize(idx(last_frame) + 1);
  links_.resize(idx(last_link) + 1);
  frames_limit_ = std::max<std::size_t>(256, 2 * frames_.size());
  links_limit_ = std::max<std::size_t>(1024, 2 * links_.size());
}

}  // namespace baltoro
