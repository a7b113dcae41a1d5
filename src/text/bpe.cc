#include "text/bpe.h"

#include <algorithm>
#include <functional>

#include "core/error.h"

namespace baltoro {
namespace {

// The parts of one piece as a linked list, and a heap of the pairs that can be merged. A pair is
// not removed from the heap when one of its parts changes; pop() skips it by its length then.
class PieceMerger {
 public:
  PieceMerger(const Vocabulary& vocabulary, std::string_view piece, BpeScratch& scratch)
      : vocabulary_(vocabulary), piece_(piece), parts_(scratch.parts), heap_(scratch.heap) {
    const auto size = static_cast<std::uint32_t>(piece.size());
    parts_.resize(size);
    heap_.clear();
    for (std::uint32_t begin = 0; begin < size; ++begin) {
      parts_[begin] = {begin + 1, begin - 1, vocabulary.find(piece.substr(begin, 1))};
    }
    for (std::uint32_t begin = 0; begin + 1 < size; ++begin) add_pair(begin);
    std::make_heap(heap_.begin(), heap_.end(), std::greater<>());
  }

  void merge_all() {
    while (!heap_.empty()) {
      std::pop_heap(heap_.begin(), heap_.end(), std::greater<>());
      const std::uint64_t entry = heap_.back();
      heap_.pop_back();
      const auto rank = static_cast<TokenId>(entry >> 32);
      const auto left = static_cast<std::uint32_t>(entry);
      if (is_current(left, rank)) merge(left, rank);
    }
  }

  void append_ids(std::vector<TokenId>& ids) const {
    for (std::uint32_t begin = 0; begin < piece_.size(); begin = parts_[begin].next) {
      ids.push_back(parts_[begin].id);
    }
  }

 private:
  bool is_current(std::uint32_t left, TokenId rank) const {
    if (parts_[left].id == Vocabulary::kAbsent) return false;
    const std::uint32_t right = parts_[left].next;
    return right < piece_.size() && parts_[right].next - left == vocabulary_.token(rank).size();
  }

  bool add_pair(std::uint32_t left) {
    const std::uint32_t right = parts_[left].next;
    if (right >= piece_.size()) return false;
    const TokenId rank = vocabulary_.find(piece_.substr(left, parts_[right].next - left));
    if (rank == Vocabulary::kAbsent) return false;
    heap_.push_back(static_cast<std::uint64_t>(rank) << 32 | left);
    return true;
  }

  void push_pair(std::uint32_t left) {
    if (add_pair(left)) std::push_heap(heap_.begin(), heap_.end(), std::greater<>());
  }

  void merge(std::uint32_t left, TokenId rank) {
    BpeScratch::Part& part = parts_[left];
    BpeScratch::Part& right = parts_[part.next];
    right.id = Vocabulary::kAbsent;
    part.next = right.next;
    part.id = rank;
    if (part.next < piece_.size()) parts_[part.next].previous = left;
    push_pair(left);
    if (left > 0) push_pair(part.previous);
  }

  const Vocabulary& vocabulary_;
  std::string_view piece_;
  std::vector<BpeScratch::Part>& parts_;
  std::vector<std::uint64_t>& heap_;
};

}  // namespace

void encode_piece(const Vocabulary& vocabulary, std::string_view piece, BpeScratch& scratch,
                  std::vector<TokenId>& ids) {
  if (const TokenId whole = vocabulary.find(piece); whole != Vocabulary::kAbsent) {
    ids.push_back(whole);
    return;
  }
  BALTORO_CHECK(piece.size() < UINT32_MAX, "piece of {} bytes", piece.size());
  PieceMerger merger(vocabulary, piece, scratch);
  merger.merge_all();
  merger.append_ids(ids);
}

}  // namespace baltoro
