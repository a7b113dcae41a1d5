#include "engine/prefix_cache.h"

#include <algorithm>
#include <utility>

namespace baltoro {
namespace {

std::size_t common_length(std::span<const TokenId> a, std::span<const TokenId> b) {
  return static_cast<std::size_t>(std::ranges::mismatch(a, b).in1 - a.begin());
}

// Calls visit(node, end) for each node whose whole path begins `ids`, `end` being its length, and
// returns how many ids the tree knows.
template <typename Visit>
std::size_t walk(const PrefixNode& root, std::span<const TokenId> ids, Visit&& visit) {
  const PrefixNode* node = &root;
  std::size_t length = 0;
  while (length < ids.size()) {
    const auto child = node->children.find(ids[length]);
    if (child == node->children.end()) return length;
    node = child->second.get();
    const std::size_t common = common_length(node->edge, ids.subspan(length));
    length += common;
    if (common < node->edge.size()) return length;
    visit(*node, length);
  }
  return length;
}

bool is_needed(const PrefixNode& node) {
  return node.read != nullptr || node.live != nullptr || node.holds > 0;
}

}  // namespace

PrefixCache::PrefixCache(std::uint64_t budget, std::uint64_t page_bytes)
    : budget_(budget), page_bytes_(page_bytes) {}

PrefixCache::Hit PrefixCache::find(std::span<const TokenId> ids, bool live_too) const {
  Hit hit;
  walk(root_, ids, [&](const PrefixNode& node, std::size_t length) {
    if (node.read != nullptr && length < ids.size()) {
      hit = {static_cast<std::int64_t>(length), node.read};
    } else if (node.live != nullptr && live_too &&
               (length < ids.size() || node.live->pending.has_value())) {
      hit = {static_cast<std::int64_t>(length), node.live};
    }
  });
  return hit;
}

void PrefixCache::touch(const std::shared_ptr<CachedState>& state) {
  by_recency_.splice(by_recency_.begin(), by_recency_, state->recency);
}

std::int64_t PrefixCache::shared_length(std::span<const TokenId> ids) const {
  return static_cast<std::int64_t>(walk(root_, ids, [](const PrefixNode&, std::size_t) {}));
}

std::weak_ptr<CachedState> PrefixCache::insert(std::span<const TokenId> key, CachedState given) {
  auto state = std::make_shared<CachedState>(std::move(given));
  PrefixNode* node = make_path(key);
  by_recency_.push_front(state);
  state->recency = by_recency_.begin();
  own_bytes_ += state->own_bytes;
  for (std::int32_t page : state->pages) ++page_users_[page];
  set_key(state, node);
  shrink_to(budget_);
  return state;
}

void PrefixCache::add_key(const std::weak_ptr<CachedState>& state, std::span<const TokenId> key) {
  if (const auto kept = state.lock(); kept != nullptr && !kept->keys.empty()) {
    set_key(kept, make_path(key));
  }
}

PrefixNode* PrefixCache::hold(std::span<const TokenId> ids) {
  PrefixNode* node = make_path(ids);
  ++node->holds;
  return node;
}

void PrefixCache::release(PrefixNode* held) {
  --held->holds;
  prune(held);
}

void PrefixCache::shrink_to(std::uint64_t target) {
  while (bytes() > target && !by_recency_.empty()) {
    drop(by_recency_.back());
    ++evictions_;
  }
}

void PrefixCache::set_budget(std::uint64_t bytes) {
  budget_ = bytes;
  shrink_to(bytes);
}

std::uint64_t PrefixCache::bytes() const noexcept {
  return own_bytes_ + page_users_.size() * page_bytes_;
}

PrefixNode* PrefixCache::make_path(std::span<const TokenId> ids) {
  PrefixNode* node = &root_;
  while (!ids.empty()) {
    const auto found = node->children.find(ids.front());
    if (found == node->children.end()) {
      auto leaf = std::make_unique<PrefixNode>();
      leaf->edge.assign(ids.begin(), ids.end());
      leaf->parent = node;
      return (node->children[ids.front()] = std::move(leaf)).get();
    }
    PrefixNode* child = found->second.get();
    const std::size_t common = common_length(child->edge, ids);
    node = common < child->edge.size() ? split(child, common) : child;
    ids = ids.subspan(common);
  }
  return node;
}

// Puts a node into the edge before `node`, which stays the node that it was for all who point to it.
PrefixNode* PrefixCache::split(PrefixNode* node, std::size_t at) {
  auto upper = std::make_unique<PrefixNode>();
  PrefixNode* result = upper.get();
  const auto middle = node->edge.begin() + static_cast<std::ptrdiff_t>(at);
  upper->edge.assign(node->edge.begin(), middle);
  upper->parent = node->parent;
  node->parent = result;
  std::unique_ptr<PrefixNode>& place = upper->parent->children.at(upper->edge.front());
  upper->children[*middle] = std::move(place);
  place = std::move(upper);
  node->edge.erase(node->edge.begin(), middle);
  return result;
}

// Takes out nodes that nothing needs, from `node` up, and joins edges that no longer branch.
void PrefixCache::prune(PrefixNode* node) {
  while (node != &root_ && !is_needed(*node) && node->children.empty()) {
    PrefixNode* parent = node->parent;
    parent->children.erase(parent->children.find(node->edge.front()));
    node = parent;
  }
  if (node == &root_ || is_needed(*node) || node->children.size() != 1) return;
  std::unique_ptr<PrefixNode> child = std::move(node->children.begin()->second);
  child->edge.insert(child->edge.begin(), node->edge.begin(), node->edge.end());
  child->parent = node->parent;
  std::unique_ptr<PrefixNode>& place = node->parent->children.at(node->edge.front());
  place = std::move(child);
}

void PrefixCache::set_key(const std::shared_ptr<CachedState>& state, PrefixNode* node) {
  std::shared_ptr<CachedState>& place = node->state(state->kind);
  if (place == state) return;
  const std::shared_ptr<CachedState> before = std::exchange(place, state);
  state->keys.push_back(node);
  if (before == nullptr) return;
  std::erase(before->keys, node);
  if (before->keys.empty()) drop(before);
}

void PrefixCache::drop(std::shared_ptr<CachedState> state) {
  own_bytes_ -= state->own_bytes;
  for (std::int32_t page : state->pages) {
    const auto users = page_users_.find(page);
    if (--users->second == 0) page_users_.erase(users);
  }
  by_recency_.erase(state->recency);
  for (PrefixNode* node : std::exchange(state->keys, {})) {
    node->state(state->kind) = nullptr;
    prune(node);
  }
  state->session.reset();
}

}  // namespace baltoro
