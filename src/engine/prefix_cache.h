// States to go on from, found by the token ids that they stand for: a radix tree with a budget of
// bytes that forgets what was not used for longest. Policy and sessions are in engine/reuse.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "baltoro/session.h"
#include "baltoro/types.h"

namespace baltoro {

// How the tokens of a state came in: kRead all as input, from the first one on; kLive some of them
// generated.
enum class StateKind : std::uint8_t { kRead, kLive };

struct PrefixNode;

struct CachedState {
  StateKind kind = StateKind::kRead;
  std::optional<Session> session = std::nullopt;
  // The last token of the key where it is not in the session yet.
  std::optional<TokenId> pending = std::nullopt;
  std::uint64_t own_bytes = 0;           // of the state, beside its pages
  std::vector<std::int32_t> pages = {};  // of the MLA cache

  // The cache's own.
  std::vector<PrefixNode*> keys = {};
  std::list<std::shared_ptr<CachedState>>::iterator recency = {};
};

// One stretch of ids in the tree and what stands at its end.
struct PrefixNode {
  std::vector<TokenId> edge;
  PrefixNode* parent = nullptr;
  std::map<TokenId, std::unique_ptr<PrefixNode>> children;  // by the first id of their edge
  std::shared_ptr<CachedState> read, live;
  int holds = 0;

  std::shared_ptr<CachedState>& state(StateKind kind) {
    return kind == StateKind::kRead ? read : live;
  }
};

// Not thread safe. A page that several states share counts once.
class PrefixCache {
 public:
  PrefixCache(std::uint64_t budget, std::uint64_t page_bytes);
  PrefixCache(const PrefixCache&) = delete;
  PrefixCache& operator=(const PrefixCache&) = delete;

  struct Hit {
    std::int64_t length = 0;  // ids that the state stands for
    std::shared_ptr<CachedState> state;
  };
  // The longest key that `ids` begin with; among equal ones that of a kRead state. A state without a
  // pending token has no logits, so something must be left to read. `state` is null where there is
  // none.
  Hit find(std::span<const TokenId> ids, bool live_too) const;
  // Makes the state the last to be forgotten.
  void touch(const std::shared_ptr<CachedState>& state);
  // How many of the ids also begin some key or held path.
  std::int64_t shared_length(std::span<const TokenId> ids) const;

  // Keeps a state under a key, in the place of one of its kind, and forgets others to stay within
  // the budget: also this one where it is larger than all of it.
  std::weak_ptr<CachedState> insert(std::span<const TokenId> key, CachedState state);
  // Another key of a state that is still kept.
  void add_key(const std::weak_ptr<CachedState>& state, std::span<const TokenId> key);

  // Makes `ids` known to shared_length() until it is released.
  PrefixNode* hold(std::span<const TokenId> ids);
  void release(PrefixNode* held);

  // Forgets the states that were not used for longest until at most `bytes` are taken.
  void shrink_to(std::uint64_t bytes);
  // Shrinks to a new budget.
  void set_budget(std::uint64_t bytes);

  std::uint64_t bytes() const noexcept;
  std::size_t entries() const noexcept { return by_recency_.size(); }
  std::uint64_t evictions() const noexcept { return evictions_; }

 private:
  PrefixNode* make_path(std::span<const TokenId> ids);
  PrefixNode* split(PrefixNode* node, std::size_t at);
  void prune(PrefixNode* node);
  void set_key(const std::shared_ptr<CachedState>& state, PrefixNode* node);
  void drop(std::shared_ptr<CachedState> state);

  std::uint64_t budget_;
  std::uint64_t page_bytes_;
  PrefixNode root_;
  std::list<std::shared_ptr<CachedState>> by_recency_;  // the last used first
  std::unordered_map<std::int32_t, int> page_users_;
  std::uint64_t own_bytes_ = 0;
  std::uint64_t evictions_ = 0;
};

}  // namespace baltoro
