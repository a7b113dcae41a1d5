// Which routed experts are in memory, which to read next and which to give up for them. Arithmetic
// only: model/mapped_weights.h moves the pages.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace baltoro {

// One thread at a time.
class ExpertCache {
 public:
  // bytes[layer][id]; a layer without routed experts is empty.
  explicit ExpertCache(const std::vector<std::vector<std::uint64_t>>& bytes);

  // Bytes of experts in memory at a time. A smaller limit takes effect with the next acquire().
  void set_limit(std::uint64_t bytes) { limit_ = bytes; }

  // Layers are visited in ascending order, then a new pass begins.
  void begin_pass() { ++pass_; }

  struct Step {
    std::size_t ready = 0;  // of the ids, from the first on: those that may be read in this step
    std::vector<std::size_t> reads;  // numbers of experts, in the order of their use
    std::vector<std::size_t> drops;
  };
  // `ids` as in ExpertFeed::acquire. The step serves a part of them and reads ahead for as many
  // more as the limit allows.
  const Step& acquire(int layer, std::span<const std::int32_t> ids);

  // Numbers count the experts of all layers.
  std::size_t number(int layer, std::int32_t id) const {
    return first_[static_cast<std::size_t>(layer)] + static_cast<std::size_t>(id);
  }
  std::uint64_t bytes_in_memory() const noexcept { return used_; }

 private:
  struct Expert {
    std::uint64_t bytes = 0;
    std::int64_t last_pass = -1;  // in which it was acquired
    std::uint64_t wanted_by = 0;  // the step whose ids named it
    std::uint64_t pinned_by = 0;  // the step that uses it or reads it ahead
    int layer = 0;
    bool in_memory = false;
  };
  std::uint64_t patience(const Expert& expert, int layer) const;
  void make_room(int layer, std::uint64_t bytes);

  std::vector<Expert> experts_;
  std::vector<std::size_t> first_;  // [layers] number of the layer's expert 0
  std::vector<std::size_t> in_memory_;
  std::vector<std::size_t> candidates_;
  Step step_;
  std::uint64_t limit_ = 0;
  std::uint64_t used_ = 0;
  std::uint64_t serial_ = 0;
  std::int64_t pass_ = 0;
};

}  // namespace baltoro
