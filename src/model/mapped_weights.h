// Runs a model whose weights are partly in mapped files, within the memory of its plan. Layers of
// the trunk that stay in the files are read one ahead and dropped after use; routed experts are
// read as soon as the router has chosen them and kept as long as there is room.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "baltoro/memory_plan.h"
#include "io/pager.h"
#include "io/weight_store.h"
#include "model/expert_cache.h"
#include "model/weights.h"
#include "ops/expert_mlp.h"

namespace baltoro {

// One thread at a time: that of the forward pass.
class MappedWeights final : public ExpertFeed {
 public:
  // `store` and the memory of `weights` outlive this.
  MappedWeights(const WeightStore& store, const ModelWeights& weights, const MemoryPlan& plan);

  // Takes room of the experts for state that has grown beyond the plan. Throws Error{kDoesNotFit}
  // where not two experts would remain.
  void yield_to_state(std::uint64_t bytes);

  // Waits until the layer's trunk is in memory and begins to read the next. Layers come in
  // ascending order; layer 0 begins a pass. Throws Error{kIo}, as acquire() does.
  void enter_layer(int layer);
  void enter_head();

  // Of the layer entered last.
  std::size_t acquire(std::span<const std::int32_t> ids) override;

  // Bytes brought into memory so far, wherever they were cached before.
  std::uint64_t bytes_read() const { return pager_.bytes_read(); }

 private:
  // What one layer, or the head, has in the files beside its routed experts.
  struct Part {
    std::vector<FileRange> ranges;  // empty: it was copied
    std::size_t next = 0;           // the part to read ahead while this one is at work
    bool stays = false;             // there is room for it between passes
    Pager::Ticket ticket = 0;       // of its last read; 0: not in memory
  };
  void enter(std::size_t part);
  void add_experts(const WeightStore& store, const ModelWeights& weights);

  MemoryPlan plan_;
  std::vector<Part> parts_;           // the layers, then the head
  std::size_t entered_ = 0;           // the part with ranges that was entered last
  std::vector<FileRange> embedding_;  // dropped after each pass; empty: it stays

  std::vector<std::vector<FileRange>> expert_ranges_;  // by number
  std::vector<Pager::Ticket> expert_tickets_;
  std::uint64_t largest_expert_ = 0;
  ExpertCache experts_;
  int layer_ = 0;
  Pager pager_;
};

}  // namespace baltoro
