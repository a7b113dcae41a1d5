#include "engine/state_pool.h"

#include <algorithm>

#include "core/error.h"

namespace baltoro {
namespace {

constexpr std::int32_t kFirstSlots = 4;
constexpr std::int32_t kFirstPages = 32;

// Puts [begin, end) on a free list that has room for all, so that the lowest index is taken first.
void add_free(std::vector<std::int32_t>& list, std::int32_t begin, std::int32_t end) {
  for (std::int32_t i = end - 1; i >= begin; --i) list.push_back(i);
}

std::int32_t take(std::vector<std::int32_t>& list) {
  const std::int32_t index = list.back();
  list.pop_back();
  return index;
}

// Doubles while that is cheap to copy and to have in vain.
std::int32_t larger(std::int32_t count, std::int32_t first, std::size_t item_bytes) {
  constexpr std::size_t kCheap = std::size_t{1} << 30;
  const bool cheap = static_cast<std::size_t>(count) * item_bytes < kCheap;
  return std::max(first, count + (cheap ? count : count / 8 + 1));
}

}  // namespace

void StatePool::reserve_slots(std::int32_t count) {
  const std::int32_t old_count = state_.num_slots();
  if (count <= old_count) return;
  // Room for all, so that nothing throws once the pool has grown, nor a release ever.
  free_slots_.reserve(static_cast<std::size_t>(count));
  state_.reserve_slots(count);
  add_free(free_slots_, old_count, count);
}

void StatePool::reserve_pages(std::int32_t count) {
  const std::int32_t old_count = state_.num_pages();
  if (count <= old_count) return;
  free_pages_.reserve(static_cast<std::size_t>(count));
  page_references_.reserve(static_cast<std::size_t>(count));
  state_.reserve_pages(count);
  page_references_.resize(static_cast<std::size_t>(count), 0);
  add_free(free_pages_, old_count, count);
}

std::int32_t StatePool::acquire_slot() {
  if (free_slots_.empty()) {
    reserve_slots(larger(state_.num_slots(), kFirstSlots, state_.slot_bytes()));
  }
  return take(free_slots_);
}

void StatePool::release_slot(std::int32_t slot) noexcept { free_slots_.push_back(slot); }

std::int32_t StatePool::acquire_page() {
  if (free_pages_.empty()) {
    reserve_pages(larger(state_.num_pages(), kFirstPages, state_.page_bytes()));
  }
  const std::int32_t page = take(free_pages_);
  page_references_[static_cast<std::size_t>(page)] = 1;
  return page;
}

void StatePool::share_page(std::int32_t page) {
  std::int32_t& references = page_references_.at(static_cast<std::size_t>(page));
  BALTORO_CHECK(references > 0, "page {} is free and cannot be shared", page);
  ++references;
}

void StatePool::release_page(std::int32_t page) noexcept {
  if (--page_references_[static_cast<std::size_t>(page)] == 0) free_pages_.push_back(page);
}

bool StatePool::is_shared(std::int32_t page) const {
  return page_references_.at(static_cast<std::size_t>(page)) > 1;
}

std::int32_t StatePool::slots_in_use() const noexcept {
  return state_.num_slots() - static_cast<std::int32_t>(free_slots_.size());
}

std::int32_t StatePool::pages_in_use() const noexcept {
  return state_.num_pages() - static_cast<std::int32_t>(free_pages_.size());
}

}  // namespace baltoro
