#include "engine/working_memory.h"

#include <algorithm>
#include <numeric>

#include "core/error.h"
#include "model/sequence_state.h"
#include "model/workspace.h"
#include "ops/batch.h"

namespace baltoro {
namespace {

// What ops and heap grow to beside activations and state.
std::uint64_t scratch_bytes(const ModelConfig& config, std::int64_t max_rows) {
  // Page tables, heap and the other ops: 5 to 25 MiB were measured (docs/performance.md).
  constexpr std::uint64_t kOther = std::uint64_t{32} << 20;
  // The routed experts work in passes of at most 64 MiB of f32 (cpu/expert_mlp.cc), which they pack
  // into half as much beside.
  constexpr std::uint64_t kMostOfExperts = std::uint64_t{96} << 20;
  const MoeConfig& moe = config.moe;
  const std::int64_t width = moe.latent_size > 0 ? moe.latent_size : config.hidden_size;
  const auto experts =
      static_cast<std::uint64_t>(max_rows * moe.experts_per_token * (moe.expert_ffn_size + width)) *
      6;
  return kOther + std::min(experts, kMostOfExperts);
}

}  // namespace

StateFormat state_format(const EngineOptions& options, const ModelConfig& config) {
  const bool fp8 = options.latents == Latents::kFp8;
  if (fp8 && config.mla.kind == MlaKind::kGqa) {
    fail(ErrorCode::kUnsupported,
         "this model caches keys and values, which have no form in fp8, and no latents: use "
         "--latents auto");
  }
  return {.kda = options.kda_state == KdaState::kBf16 ? DType::kBf16 : DType::kF32,
          .fp8_latents = fp8};
}

std::uint64_t planned_state_bytes(const StateBytes& bytes) {
  return 2 * bytes.slot + 2048 / kBlockTokens * bytes.page;
}

std::uint64_t WorkingMemory::with_states(std::size_t begin, std::size_t end) const {
  const auto at = [&](std::size_t i) { return states.begin() + static_cast<std::ptrdiff_t>(i); };
  return std::accumulate(at(begin), at(end), pass);
}

WorkingMemory working_memory(const EngineOptions& options, const ModelConfig& config,
                             Backend& backend) {
  // Made to be measured: untouched memory costs nothing.
  const Workspace workspace(backend, config, options.max_batch_rows);
  const SequenceState state(backend, config, state_format(options, config));
  WorkingMemory memory;
  memory.pass = workspace.bytes() + scratch_bytes(config, options.max_batch_rows);
  for (std::size_t i = 0; i < config.layers.size(); ++i) {
    memory.states.push_back(planned_state_bytes(state.bytes_of(i, i + 1)));
  }
  return memory;
}

}  // namespace baltoro
