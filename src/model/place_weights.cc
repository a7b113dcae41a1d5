#include "model/place_weights.h"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <iterator>
#include <optional>
#include <span>
#include <utility>
#include <variant>

#include "model/random_fill.h"
#include "model/staged_copy.h"

namespace baltoro {
namespace {

constexpr std::uint64_t kAlign = 256;

std::uint64_t aligned(std::int64_t bytes) {
  return (static_cast<std::uint64_t>(bytes) + kAlign - 1) / kAlign * kAlign;
}

std::int64_t data_bytes(const WeightView& view) { return view.rows * view.row_bytes(); }
std::int64_t scale_bytes(const WeightView& view) { return view.rows * view.scale_cols(); }

std::uint64_t aligned_bytes(const WeightView& view) {
  return view ? aligned(data_bytes(view)) + aligned(scale_bytes(view)) : 0;
}

using VisitMatrix = std::function<void(WeightView&)>;

void for_each_matrix(LayerWeights& layer, bool experts, const VisitMatrix& visit) {
  for_each_trunk_matrix(layer, visit);
  if (!experts) return;
  auto* moe = std::get_if<MoeWeights>(&layer.ffn);
  if (moe == nullptr) return;
  for (ExpertWeights& expert : moe->experts) {
    for (WeightView* view : {&expert.w1, &expert.w3, &expert.w2}) visit(*view);
  }
}

class Mover {
 public:
  Mover(Backend& backend, const PlaceOptions& options, std::uint64_t total)
      : backend_(backend), options_(options), random_(backend), total_(total) {
    if (options.contents == Contents::kCopied) {
      staged_.emplace(
          backend, options.store, total, [this](std::uint64_t bytes) { report(bytes); },
          options.chunk_bytes);
    }
  }

  // Memory for the matrices that follow.
  void begin(std::uint64_t bytes, const char* purpose) {
    // A chunk does not reach over memory of others.
    if (staged_) staged_->flush();
    buffers_.push_back(backend_.allocate(bytes, purpose));
    used_ = 0;
  }
  void move(WeightView& view) {
    if (!view) return;
    const WeightView from = view;
    view.data = take(data_bytes(view));
    if (view.scales != nullptr) {
      view.scales = static_cast<const std::uint8_t*>(take(scale_bytes(view)));
    }
    if (options_.contents == Contents::kRandom) {
      random_.fill(view);
    } else {
      stage(view.data, from.data, data_bytes(view), StagedCopy::Bytes::kAny);
      stage(view.scales, from.scales, scale_bytes(view), StagedCopy::Bytes::kE8m0Scales);
      return;
    }
    report(aligned_bytes(view));
  }
  void move(WeightVector& vector) {
    if (vector.empty()) return;
    const std::size_t bytes = vector.size() * sizeof(float);
    const void* to = take(static_cast<std::int64_t>(bytes));
    backend_.copy(writable(to), vector.values().data(), bytes);
    vector.place(static_cast<const float*>(to));
  }
  // Matrices are there.
  void finish() {
    if (staged_) {
      staged_->finish();
      times_ = staged_->times();
    }
    staged_.reset();
    report(total_ - done_);
  }
  // Takes over memory that weights point to.
  const void* keep(Buffer buffer) {
    kept_.push_back(std::move(buffer));
    return kept_.back().data();
  }
  PlacedWeights placed() {
    std::move(kept_.begin(), kept_.end(), std::back_inserter(buffers_));
    return {std::move(buffers_), times_};
  }

 private:
  // The next piece of the memory.
  const void* take(std::int64_t bytes) {
    const void* piece = static_cast<std::byte*>(buffers_.back().data()) + used_;
    used_ += aligned(bytes);
    return piece;
  }
  void stage(const void* to, const void* from, std::int64_t bytes, StagedCopy::Bytes kind) {
    if (bytes > 0) staged_->add(writable(to), from, static_cast<std::size_t>(bytes), kind);
  }
  // What is filled here is const for its readers.
  static void* writable(const void* to) { return const_cast<void*>(to); }
  void report(std::uint64_t bytes) {
    done_ = std::min(total_, done_ + bytes);
    if (options_.progress) options_.progress(done_, total_);
  }

  Backend& backend_;
  const PlaceOptions& options_;
  RandomFill random_;
  std::optional<StagedCopy> staged_;
  std::uint64_t total_;
  std::vector<Buffer> buffers_;  // the last is being filled
  std::vector<Buffer> kept_;
  std::uint64_t used_ = 0;
  std::uint64_t done_ = 0;
  CopyTimes times_;
};

// A head that is rows of the embedding stays so.
bool is_tied(const ModelWeights& weights) {
  const auto* table = static_cast<const std::byte*>(weights.embed.data);
  const auto* head = static_cast<const std::byte*>(weights.lm_head.data);
  return head >= table && head < table + weights.embed.bytes();
}

std::uint64_t layer_bytes(LayerWeights& layer, bool experts) {
  std::uint64_t bytes = 0;
  for_each_matrix(layer, experts, [&](WeightView& view) { bytes += aligned_bytes(view); });
  return bytes;
}

std::uint64_t outer_bytes(const ModelWeights& weights, bool embedding) {
  if (!embedding) return aligned_bytes(weights.lm_head);
  return aligned_bytes(weights.embed) + (is_tied(weights) ? 0 : aligned_bytes(weights.lm_head));
}

void move_outer(ModelWeights& weights, bool embedding, Mover& mover) {
  mover.begin(outer_bytes(weights, embedding), "embedding and head");
  if (!embedding) {
    mover.move(weights.lm_head);
    return;
  }
  if (!is_tied(weights)) {
    mover.move(weights.embed);
    mover.move(weights.lm_head);
    return;
  }
  const std::ptrdiff_t offset = static_cast<const std::byte*>(weights.lm_head.data) -
                                static_cast<const std::byte*>(weights.embed.data);
  mover.move(weights.embed);
  weights.lm_head.data = static_cast<const std::byte*>(weights.embed.data) + offset;
}

using VisitVector = std::function<void(WeightVector&)>;

// The layers that are placed.
std::span<LayerWeights> placed_layers(ModelWeights& weights, const PlaceOptions& options) {
  return std::span(weights.layers).subspan(options.first_layer);
}

void for_all_vectors(ModelWeights& weights, const PlaceOptions& options, const VisitVector& visit) {
  for (LayerWeights& layer : placed_layers(weights, options)) for_each_vector(layer, visit);
  visit(weights.final_norm);
  if (weights.output_attn_res) {
    visit(weights.output_attn_res->norm);
    visit(weights.output_attn_res->proj);
  }
}

std::uint64_t vector_bytes(ModelWeights& weights, const PlaceOptions& options) {
  std::uint64_t bytes = 0;
  for_all_vectors(weights, options, [&](WeightVector& vector) {
    bytes += aligned(static_cast<std::int64_t>(vector.size() * sizeof(float)));
  });
  return bytes;
}

}  // namespace

std::uint64_t placed_bytes(ModelWeights& weights, const PlaceOptions& options) {
  std::uint64_t bytes =
      outer_bytes(weights, options.first_layer == 0) + vector_bytes(weights, options);
  for (LayerWeights& layer : placed_layers(weights, options)) {
    bytes += layer_bytes(layer, options.experts);
  }
  return bytes;
}

PlacedWeights place_weights(Backend& backend, ModelWeights& weights, const PlaceOptions& options) {
  Mover mover(backend, options, placed_bytes(weights, options));
  move_outer(weights, options.first_layer == 0, mover);
  for (LayerWeights& layer : placed_layers(weights, options)) {
    mover.begin(layer_bytes(layer, options.experts), "weights of a layer");
    for_each_matrix(layer, options.experts, [&](WeightView& view) { mover.move(view); });
    auto* moe = std::get_if<MoeWeights>(&layer.ffn);
    if (moe != nullptr && options.experts) {
      moe->expert_table = mover.keep(backend.expert_table(moe->experts));
    }
  }
  mover.begin(vector_bytes(weights, options), "vectors of weights");
  for_all_vectors(weights, options, [&](WeightVector& vector) { mover.move(vector); });
  mover.finish();
  return mover.placed();
}

}  // namespace baltoro
