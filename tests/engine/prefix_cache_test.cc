// The tree of kept states alone: what it finds, what it forgets, what it counts. No model: pages are
// numbers and states have no session.
#include "engine/prefix_cache.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <random>

#include "engine/prompt_rows.h"
#include "engine/state_budget.h"
#include "model/config.h"
#include "model/sequence_state.h"
#include "ops/reference/reference_backend.h"
#include "paths.h"

namespace baltoro {
namespace {

using Ids = std::vector<TokenId>;

constexpr std::uint64_t kStateBytes = 100;
constexpr std::uint64_t kPageBytes = 10;

CachedState state(std::vector<std::int32_t> pages = {}, StateKind kind = StateKind::kRead) {
  CachedState state{.kind = kind, .own_bytes = kStateBytes, .pages = std::move(pages)};
  if (kind == StateKind::kLive) state.pending = 1;
  return state;
}

Ids range(TokenId begin, TokenId end) {
  Ids ids(static_cast<std::size_t>(end - begin));
  std::iota(ids.begin(), ids.end(), begin);
  return ids;
}

class PrefixTree : public ::testing::Test {
 protected:
  std::int64_t found(const Ids& ids, bool live_too = false) {
    return cache_.find(ids, live_too).length;
  }
  PrefixCache cache_{1000, kPageBytes};
};

TEST_F(PrefixTree, FindsTheLongestKeyThatTheIdsBeginWith) {
  EXPECT_EQ(cache_.find(Ids{1, 2}, true).state, nullptr);
  cache_.insert(Ids{1, 2}, state());
  cache_.insert(Ids{1, 2, 3, 4, 5}, state());
  cache_.insert(Ids{1, 2, 3, 9}, state());
  EXPECT_EQ(found({1, 2, 3, 4, 5, 6}), 5);
  EXPECT_EQ(found({1, 2, 3, 4, 6}), 2);
  EXPECT_EQ(found({1, 2, 3, 9, 9}), 4);
  EXPECT_EQ(found({1, 2, 8}), 2);
  EXPECT_EQ(found({1, 3}), 0);
  EXPECT_EQ(found({2}), 0);
  EXPECT_EQ(found({}), 0);
}

TEST_F(PrefixTree, AReadStateLeavesSomethingToRead) {
  cache_.insert(Ids{1, 2}, state());
  cache_.insert(Ids{1, 2, 3, 4}, state());
  EXPECT_EQ(found({1, 2, 3, 4}), 2);
  cache_.insert(Ids{1, 2, 3, 4}, state({}, StateKind::kLive));
  EXPECT_EQ(found({1, 2, 3, 4}, true), 4) << "its pending token gives the logits";
  EXPECT_EQ(found({1, 2, 3, 4}, false), 2);
}

TEST_F(PrefixTree, AReadStateComesBeforeALiveOneOfTheSameKey) {
  cache_.insert(Ids{1, 2}, state({}, StateKind::kLive));
  cache_.insert(Ids{1, 2}, state({}, StateKind::kRead));
  EXPECT_EQ(cache_.entries(), 2);
  EXPECT_EQ(cache_.find(Ids{1, 2, 3}, true).state->kind, StateKind::kRead);
  EXPECT_EQ(cache_.find(Ids{1, 2}, true).state->kind, StateKind::kLive);
}

TEST_F(PrefixTree, ANewStateReplacesOneOfItsKindAndKey) {
  cache_.insert(Ids{1, 2}, state({1, 2}));
  cache_.insert(Ids{1, 2}, state({2, 3, 4}));
  EXPECT_EQ(cache_.entries(), 1);
  EXPECT_EQ(cache_.bytes(), kStateBytes + 3 * kPageBytes);
}

TEST_F(PrefixTree, SharedPagesCountOnce) {
  cache_.insert(Ids{1}, state({1, 2, 3}));
  cache_.insert(Ids{1, 2}, state({1, 2, 3, 4}));
  EXPECT_EQ(cache_.bytes(), 2 * kStateBytes + 4 * kPageBytes);
  cache_.shrink_to(cache_.bytes() - 1);
  EXPECT_EQ(cache_.bytes(), kStateBytes + 4 * kPageBytes);
  cache_.shrink_to(0);
  EXPECT_EQ(cache_.bytes(), 0);
  EXPECT_EQ(cache_.evictions(), 2);
}

TEST_F(PrefixTree, ForgetsWhatWasNotUsedForLongest) {
  for (TokenId i = 0; i < 10; ++i) cache_.insert(Ids{i, 1}, state());
  cache_.touch(cache_.find(Ids{0, 1, 1}, false).state);
  cache_.insert(Ids{10, 1}, state());
  EXPECT_EQ(found({0, 1, 1}), 2);
  EXPECT_EQ(found({1, 1, 1}), 0);
  EXPECT_EQ(found({2, 1, 1}), 2);
  EXPECT_EQ(cache_.evictions(), 1);
}

TEST_F(PrefixTree, TheBudgetMayChange) {
  for (TokenId i = 0; i < 10; ++i) cache_.insert(Ids{i, 1}, state());
  cache_.set_budget(300);
  EXPECT_EQ(cache_.bytes(), 300);
  EXPECT_EQ(found({9, 1, 1}), 2);
  cache_.insert(Ids{10, 1}, state());
  EXPECT_EQ(cache_.bytes(), 300);
  cache_.set_budget(400);
  cache_.insert(Ids{11, 1}, state());
  EXPECT_EQ(cache_.bytes(), 400);
}

TEST_F(PrefixTree, WhatIsLargerThanTheBudgetIsNotKept) {
  CachedState large = state();
  large.own_bytes = 1001;
  EXPECT_TRUE(cache_.insert(Ids{1, 2}, std::move(large)).expired());
  EXPECT_EQ(cache_.entries(), 0);
  EXPECT_EQ(cache_.shared_length(Ids{1, 2}), 0) << "nor its path";
}

TEST_F(PrefixTree, AStateMayHaveSeveralKeys) {
  const auto kept = cache_.insert(Ids{1, 2, 3}, state({}, StateKind::kLive));
  cache_.add_key(kept, Ids{1, 2, 7, 8});
  cache_.add_key(kept, Ids{1, 2, 7, 8});
  EXPECT_EQ(found({1, 2, 3, 4}, true), 3);
  EXPECT_EQ(found({1, 2, 7, 8, 9}, true), 4);
  EXPECT_EQ(cache_.bytes(), kStateBytes);
  // One key is taken by another state: the other key is left.
  cache_.insert(Ids{1, 2, 3}, state({}, StateKind::kLive));
  EXPECT_EQ(cache_.find(Ids{1, 2, 7, 8}, true).state, kept.lock());
  EXPECT_NE(cache_.find(Ids{1, 2, 3}, true).state, kept.lock());
  cache_.shrink_to(0);
  EXPECT_EQ(found({1, 2, 7, 8, 9}, true), 0);
  cache_.add_key(kept, Ids{5, 5});
  EXPECT_EQ(found({5, 5}, true), 0) << "it is not kept any more";
}

TEST_F(PrefixTree, KnownIdsReachBeyondStates) {
  cache_.insert(range(0, 64), state());
  PrefixNode* held = cache_.hold(range(0, 100));
  Ids ids = range(0, 80);
  ids.push_back(500);
  EXPECT_EQ(cache_.shared_length(ids), 80);
  EXPECT_EQ(found(ids), 64) << "a hit is never longer than its state";
  cache_.release(held);
  EXPECT_EQ(cache_.shared_length(ids), 64);
}

// Against a map of all keys, with holds and evictions in between.
TEST_F(PrefixTree, RandomUseAgreesWithAMap) {
  std::mt19937 random(3);
  const auto random_ids = [&] {
    Ids ids(1 + random() % 12);
    for (TokenId& id : ids) id = static_cast<TokenId>(random() % 3);
    return ids;
  };
  std::map<Ids, std::weak_ptr<CachedState>> keys;
  std::vector<std::pair<PrefixNode*, Ids>> held;
  for (int i = 0; i < 20000; ++i) {
    const Ids ids = random_ids();
    switch (random() % 5) {
      case 0:
        keys[ids] = cache_.insert(ids, state({static_cast<std::int32_t>(random() % 20)}));
        break;
      case 1:
        held.emplace_back(cache_.hold(ids), ids);
        break;
      case 2:
        if (!held.empty()) {
          cache_.release(held.back().first);
          held.pop_back();
        }
        break;
      case 3:
        if (i % 50 == 0) cache_.shrink_to(random() % 500);
        break;
      default:
        break;
    }
    EXPECT_LE(cache_.bytes(), 1000);
    std::size_t longest = 0, known = 0;
    const auto common = [&](const Ids& key) {
      return static_cast<std::size_t>(std::ranges::mismatch(key, ids).in1 - key.begin());
    };
    for (const auto& [key, kept] : keys) {
      if (kept.expired()) continue;
      known = std::max(known, common(key));
      if (common(key) == key.size() && key.size() < ids.size()) longest = key.size();
    }
    for (const auto& [node, path] : held) known = std::max(known, common(path));
    ASSERT_EQ(found(ids), static_cast<std::int64_t>(longest)) << i;
    ASSERT_EQ(cache_.shared_length(ids), static_cast<std::int64_t>(known)) << i;
  }
  for (const auto& one : held) cache_.release(one.first);
  cache_.shrink_to(0);
  EXPECT_EQ(cache_.shared_length(Ids{0}) + cache_.shared_length(Ids{1}), 0);
}

// A chat of 20 turns with the sizes of K3, as engine/reuse.cc drives the tree: 60,000 tokens of
// system prompt and documents, then turns of 300 tokens asked and 700 answered.
class ChatOfK3 : public ::testing::Test {
 protected:
  // Returns the tokens of the prompt that were read.
  std::int64_t turn(PrefixCache& cache, Ids& transcript, std::int64_t asked) {
    append(transcript, asked);
    const auto hit = cache.find(transcript, true);
    const Reading reading{static_cast<std::int64_t>(transcript.size()), hit.length, 0};
    std::vector<std::int32_t> pages;
    if (hit.state != nullptr) {
      pages = hit.state->pages;
      cache.touch(hit.state);
      if (hit.length % 64 != 0) pages.back() = next_page_++;  // its own copy of the open page
    }
    const StateKind kind = hit.state == nullptr ? StateKind::kRead : hit.state->kind;
    for (const std::int64_t stop : kept_stops(reading, cache.shared_length(transcript))) {
      grow(pages, stop);
      keep(cache, std::span(transcript).first(static_cast<std::size_t>(stop)), pages, kind, {});
    }
    append(transcript, 700);
    grow(pages, std::ssize(transcript) - 1);
    keep(cache, transcript, pages, StateKind::kLive, transcript.back());
    return reading.length - reading.begin;
  }

  void append(Ids& transcript, std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i) {
      transcript.push_back(static_cast<TokenId>(random_() % 163840));
    }
  }
  void grow(std::vector<std::int32_t>& pages, std::int64_t tokens) {
    while (std::ssize(pages) * 64 < tokens) pages.push_back(next_page_++);
  }
  void keep(PrefixCache& cache, std::span<const TokenId> key,
            const std::vector<std::int32_t>& pages, StateKind kind,
            std::optional<TokenId> pending) {
    cache.insert(key, {.kind = kind,
                       .pending = pending,
                       .own_bytes = state_.slot_bytes() + key.size() * sizeof(TokenId),
                       .pages = pages});
  }

  std::unique_ptr<Backend> backend_ = make_reference_backend(Activations::kBf16);
  ModelConfig config_ = load_config(test_data_dir() / "configs" / "kimi_k3.json");
  SequenceState state_{*backend_, config_};
  std::mt19937 random_{1};
  std::int32_t next_page_ = 0;
};

TEST_F(ChatOfK3, TwentyTurnsStayWithinTheBudgetAndReadOnlyNewTokens) {
  const std::uint64_t slot = state_.slot_bytes(), page = state_.page_bytes();
  EXPECT_EQ(slot, 464633856) << "69 layers of KDA state and conv history, f32";
  for (const std::uint64_t budget : {8 * slot, 16 * slot, 1000 * slot}) {
    PrefixCache cache(budget, page);
    Ids transcript;
    EXPECT_EQ(turn(cache, transcript, 60000), 60000);
    for (int i = 1; i < 20; ++i) {
      EXPECT_EQ(turn(cache, transcript, 300), 300) << "turn " << i;
      EXPECT_LE(cache.bytes(), budget);
    }
    if (cache.evictions() > 0) continue;
    // Without a limit: 15 states of the first prompt (every 4,096 tokens and at its last block), an
    // answer's in each of 20 turns, one at the last block of each later prompt, and 73,728 and
    // 77,824, which happen to lie in what was asked.
    EXPECT_EQ(cache.entries(), 15 + 20 + 19 + 2);
    const std::uint64_t pages = (transcript.size() + 63) / 64;
    // Each answer's last page is its own, since the next turn writes to a copy.
    EXPECT_NEAR(static_cast<double>(cache.bytes()),
                static_cast<double>(cache.entries() * slot + (pages + 19) * page), 1e8);
    RecordProperty("gigabytes", std::to_string(static_cast<double>(cache.bytes()) * 1e-9));
  }
}

}  // namespace
}  // namespace baltoro
