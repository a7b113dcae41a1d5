#include "text/bpe.h"

#include <algorithm>
#include <functional>

#include "core/error.h"

namespace baltoro {
namespace {

// The parts of one piece as a linked list, and a heap of the pairs that can be merged. An entry
// stays in the heap when its pair changes; merge_all() skips it since the pair is another then.
class PieceMerger {
 public:
  PieceMerger(const Vocabulary& vocabulary, std::string_view piece, BpeScratch& scratch)
      : vocabulary_(vocabulary), piece_(piece), parts_(scratch.parts), heap_(scratch.heap) {
    const auto size = static_cast<std::uint32_t>(piece.size());
    parts_.resize(size);
    heap_.clear();
    for (std::uint32_t begin = 0; begin < size; ++begin) {
      const TokenId byte = vocabulary.find(piece.substr(begin, 1));
      const TokenId pair =
          begin + 1 < size ? vocabulary.find(piece.substr(begin, 2)) : Vocabulary::kAbsent;
      parts_[begin] = {begin + 1, begin - 1, byte, pair};
      if (pair != Vocabulary::kAbsent) heap_.push_back(entry(pair, begin));
    }
    std::make_heap(heap_.begin(), heap_.end(), std::greater<>());
  }

  void merge_all() {
    while (!heap_.empty()) {
      std::pop_heap(heap_.begin(), heap_.end(), std::greater<>());
      const auto pair = static_cast<TokenId>(heap_.back() >> 32);
      const auto left = static_cast<std::uint32_t>(heap_.back());
      heap_.pop_back();
      if (parts_[left].pair == pair) merge(left);
    }
  }

  void append_ids(std::vector<TokenId>& ids) const {
    for (std::uint32_t begin = 0; begin < piece_.size(); begin = parts_[begin].next) {
      ids.push_back(parts_[begin].id);
    }
  }

 private:
  static std::uint64_t entry(TokenId pair, std::uint32_t left) {
    return static_cast<std::uint64_t>(pair) << 32 | left;
  }

  void update_pair(std::uint32_t left) {
    BpeScratch::Part& part = parts_[left];
    part.pair = Vocabulary::kAbsent;
    if (part.next >= piece_.size()) return;
    part.pair = vocabulary_.find(piece_.substr(left, parts_[part.next].next - left));
    if (part.pair == Vocabulary::kAbsent) return;
    heap_.push_back(entry(part.pair, left));
    std::push_heap(heap_.begin(), heap_.end(), std::greater<>());
  }

  void merge(std::uint32_t left) {
    BpeScratch::Part& part = parts_[left];
    BpeScratch::Part& right = parts_[part.next];
    part.id = part.pair;
    part.next = right.next;
    right.pair = Vocabulary::kAbsent;
    if (part.next < piece_.size()) parts_[part.next].previous = left;
    update_pair(left);
    if (left > 0) update_pair(part.previous);
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
