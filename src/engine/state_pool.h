// Who owns which slot and page of the SequenceState: slots have one owner, pages are
// reference-counted, so that forks and snapshots share what they have in common.
#pragma once

#include <cstdint>
#include <vector>

#include "model/sequence_state.h"

namespace baltoro {

// Guarded by the engine's mutex.
class StatePool {
 public:
  explicit StatePool(SequenceState& state) : state_(state) {}

  // Makes room for at least as many. Throws Error{kOutOfMemory}; acquire still grows the pool then.
  void reserve_slots(std::int32_t count);
  void reserve_pages(std::int32_t count);

  // A slot with unspecified content. Grows the pool where none is free.
  std::int32_t acquire_slot();
  void release_slot(std::int32_t slot) noexcept;

  // A page with one reference and unspecified content.
  std::int32_t acquire_page();
  void share_page(std::int32_t page);
  void release_page(std::int32_t page) noexcept;
  bool is_shared(std::int32_t page) const;

  SequenceState& state() noexcept { return state_; }
  std::int32_t slots_in_use() const noexcept;
  std::int32_t pages_in_use() const noexcept;

 private:
  SequenceState& state_;
  std::vector<std::int32_t> free_slots_;
  std::vector<std::int32_t> free_pages_;
  std::vector<std::int32_t> page_references_;
};

}  // namespace baltoro
