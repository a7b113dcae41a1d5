// The inside of an Engine: what is loaded, and the passes that a forward is cut into.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "baltoro/engine.h"
#include "core/buffer.h"
#include "engine/load_parts.h"
#include "engine/state_pool.h"
#include "engine/timeline.h"
#include "io/weight_store.h"
#include "model/loader.h"
#include "model/mapped_weights.h"
#include "model/model.h"
#include "model/segment.h"
#include "model/sequence_state.h"
#include "model/workspace.h"
#include "ops/backend.h"
#include "ops/batch.h"
#include "ops/draw.h"

namespace baltoro {

// One item of a forward pass and how far it has come.
struct ItemProgress {
  BatchItem* item = nullptr;
  Timeline* timeline = nullptr;
  std::int64_t next = 0;  // position of the next row to compute
  std::int64_t end = 0;   // one past the last
  // Position of the item's first token; rows before it are computed again.
  std::int64_t new_begin = 0;
};

struct Engine::Impl {
  // Takes over what it needs of the parts.
  Impl(EngineParts& parts, const EngineOptions& options);
  static std::shared_ptr<Engine> load(EngineParts parts, const EngineOptions& options);

  // Runs the items to their ends. The mutex is held.
  void forward(std::span<BatchItem> items);

  std::mutex mutex;                          // guards everything below but `model` and `info`
  const std::shared_ptr<Backend> host;       // of the first layers, if a device has the others
  const std::unique_ptr<Backend> backend;    // of all layers or the last, and of the head
  const std::unique_ptr<WeightStore> store;  // owns what the model's weights view;
  const std::vector<Buffer> placed;          // on a device this does
  const Model model;
  const std::unique_ptr<MappedWeights> mapped;  // null: all weights stay in memory
  SequenceState state;
  StatePool pool;
  std::optional<Workspace> host_workspace;
  Workspace workspace;
  const std::vector<Segment> segments;
  EngineInfo info;

 private:
  std::vector<Backend*> backend_of_layers(std::int64_t host_layers) const;
  std::vector<Segment> make_segments(std::int64_t host_layers);
  void check(std::span<const BatchItem> items) const;
  void start(std::span<BatchItem> items);
  // Chooses the rows of the next pass; false where no item has rows left.
  bool plan_pass();
  void run_pass();
  void yield_to_state();
  // Whether every item of the pass ends in it and wants the logits of its last row alone.
  bool all_end_in_pass() const;
  std::span<float> logit_rows(std::size_t count);
  std::span<const std::int32_t> run_head(const ConstTensorView& normed,
                                         std::span<const std::int32_t> rows,
                                         std::span<float> logits);
  // Room for a number of each of at most as many rows as a head takes.
  std::span<std::int32_t> bad_rows(std::size_t count);
  void finish_items(const ConstTensorView& normed);
  // Entries [begin, end) of finished_ without and with a draw.
  void finish_whole(const ConstTensorView& normed, std::size_t begin, std::size_t end);
  void finish_drawn(const ConstTensorView& normed, std::size_t begin, std::size_t end);
  // Waits for the draws of these entries and hands out the tokens.
  void collect_drawn(std::size_t begin, std::size_t end);
  // Whether the pass itself draws, which it then may record: it decodes a token of each sequence, and
  // each wants the next one. Fills draws_.
  bool draws_in_pass();
  // The draws of these entries of sequences_ into draws_; all ban the same tokens.
  void plan_draws(std::span<const std::size_t> sequences);
  Drawn* drawn();
  // In the backend's memory; null: none.
  const std::uint8_t* banned_mask(std::span<const TokenId> banned);
  std::span<float> logits_of(std::size_t sequence);
  // Fails the item where one of its rows, or what was made of them, is not finite.
  bool check_rows(ItemProgress& progress, const SequenceRows& rows, bool finite_logits);
  void fail_item(ItemProgress& progress, std::int32_t bad_tag);
  // False where the item failed.
  bool collect_all_logits(ItemProgress& progress, const SequenceRows& rows,
                          const ConstTensorView& normed);

  // Scratch of a forward, kept so that decoding does not allocate.
  std::vector<ItemProgress> progress_;
  std::vector<ItemProgress*> in_pass_;  // the owner of each entry of sequences_
  std::vector<SequenceRows> sequences_;
  std::vector<std::int32_t> token_ids_;
  std::vector<std::size_t> finished_;    // entries of sequences_ whose items end in this pass
  std::vector<std::int32_t> last_rows_;  // their last rows in the batch
  Buffer logits_;                        // of a slice of rows, shared with the device
  Buffer bad_logits_;                    // likewise, a number for each row
  std::vector<Draw> draws_;              // of as many rows as are drawn at a time
  Buffer drawn_;                         // shared with the device, a Drawn for each
  std::vector<TokenId> banned_;          // what banned_mask_ says
  Buffer banned_mask_;
};

}  // namespace baltoro
