#include "model/model.h"

#include <cstdint>
#include <functional>
#include <numeric>
#include <utility>
#include <vector>

#include "core/error.h"
#include "model/block.h"
#include "model/residual_stream.h"
#include "ops/embed.h"
#include "ops/head.h"

namespace baltoro {

Model::Model(ModelConfig config, ModelWeights weights, ExpertActivations expert_activations)
    : config_(std::move(config)),
      weights_(std::move(weights)),
      expert_activations_(expert_activations) {}

ConstTensorView Model::forward(Backend& backend, const BatchView& batch, SequenceState& state,
                               Workspace& workspace, MappedWeights* mapped) const {
  const Segment all{backend, workspace, 0, static_cast<int>(config_.num_layers)};
  return forward({&all, 1}, batch, state, mapped);
}

ConstTensorView Model::forward(std::span<const Segment> segments, const BatchView& batch,
                               SequenceState& state, MappedWeights* mapped) const {
  segments.front().workspace.begin_pass();
  for (std::size_t i = 0; i < segments.size(); ++i) {
    const Segment* const next = i + 1 < segments.size() ? &segments[i + 1] : nullptr;
    const auto ops = [&] { run_segment(segments[i], next, batch, state, mapped); };
    if (mapped != nullptr) {
      ops();  // reads the files as it goes: nothing that could be repeated without it
    } else {
      segments[i].backend.run_pass(batch, std::ref(ops));  // a reference: allocates nothing
    }
  }
  return segments.back().workspace.normed.view(batch.num_rows(), config_.hidden_size);
}

void Model::run_segment(const Segment& segment, const Segment* next, const BatchView& batch,
                        SequenceState& state, MappedWeights* mapped) const {
  auto& [backend, workspace, first_layer, end_layer] = segment;
  ResidualStream stream(backend, config_, workspace, batch.num_rows(), first_layer);
  if (first_layer == 0) {
    embed(backend, {.table = weights_.embed, .ids = batch.token_ids, .out = stream.embedding()});
  }

  LayerContext context{backend, config_, batch, state, workspace, mapped, expert_activations_};
  for (context.layer = first_layer; context.layer < end_layer; ++context.layer) {
    if (mapped != nullptr) mapped->enter_layer(context.layer);
    run_block(context, weights_.layers[static_cast<std::size_t>(context.layer)], stream);
  }

  if (next != nullptr) {
    stream.hand_over(next->workspace, next->backend.activation_dtype());
    return;
  }
  const AttnResWeights* output_mix =
      weights_.output_attn_res ? &*weights_.output_attn_res : nullptr;
  const ConstTensorView normed = stream.finish(output_mix, weights_.final_norm);
  if (batch.draws.empty()) return;
  if (mapped != nullptr) mapped->enter_head();
  std::vector<std::int32_t> rows(static_cast<std::size_t>(batch.num_rows()));
  std::iota(rows.begin(), rows.end(), 0);
  draw(backend,
       {.x = normed, .rows = rows, .weight = {}, .draws = batch.draws, .drawn = batch.drawn});
}

void Model::logits(Backend& backend, const ConstTensorView& normed,
                   std::span<const std::int32_t> rows, float* logits, std::int32_t* bad) const {
  head(backend,
       {.x = normed, .rows = rows, .weight = weights_.lm_head, .logits = logits, .bad = bad});
}

void Model::draw(Backend& backend, HeadDrawArgs args) const {
  args.weight = weights_.lm_head;
  head_draw(backend, args);
}

std::string Model::describe_bad_tag(std::int32_t tag) const {
  if (tag < 0) return "the head";
  if (tag == 0) return "the embedding";
  const int sublayer = tag - 1;
  const int layer = sublayer / 2;
  if (sublayer % 2 == 1) return fmt::format("the FFN of layer {}", layer);
  const bool is_kda = config_.layers.at(static_cast<std::size_t>(layer)).mixer == MixerKind::kKda;
  return fmt::format("the {} mixer of layer {}", is_kda ? "KDA" : "MLA", layer);
}

}  // namespace baltoro
