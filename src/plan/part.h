// The rows of every table of the planner: the parts that the step time of a model is made of.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "plan/formats.h"

namespace baltoro::plan {

enum class Part : std::uint8_t {
  kEmbed,
  kKdaProj,   // q, k, v, decay, beta, gate and output matrices of KDA layers
  kKdaState,  // short convolution, recurrence or chunk scan: the op kda_mix
  kAttnProj,  // query, key-value, gate and output matrices of MLA (or GQA) layers
  kAttnCore,  // kv_b and attention over the cache: the ops mla_prefill and mla_decode
  kMix,       // residual adds, Attention Residuals, norms: the op mix_norm
  kRouter,
  kLatent,  // down- and up-projection around the routed experts
  kRouted,
  kShared,
  kDense,
  kHead,
  kPipeline,  // sends between pipeline stages
  kLaunch,    // fixed time a layer
};
constexpr std::size_t kNumParts = 14;
constexpr std::array<Part, kNumParts> kAllParts = {
    Part::kEmbed, Part::kKdaProj, Part::kKdaState, Part::kAttnProj, Part::kAttnCore,
    Part::kMix,   Part::kRouter,  Part::kLatent,   Part::kRouted,   Part::kShared,
    Part::kDense, Part::kHead,    Part::kPipeline, Part::kLaunch};

constexpr std::size_t index_of(Part part) { return static_cast<std::size_t>(part); }

const char* part_name(Part part);  // "kda-proj", as --explain takes it
// Throws Error{kUsage} that names the nearest one.
Part parse_part(std::string_view name);

// What the matrices of the part are stored in.
Format part_format(const Formats& formats, Part part);

}  // namespace baltoro::plan
