// What every CPU op works with, and the ops themselves, one .cc file each.
#pragma once

#include "core/parallel.h"
#include "cpu/leaf.h"
#include "cpu/scratch.h"
#include "ops/backend.h"

namespace baltoro::cpu {

struct Context {
  const LeafTable& leaf;
  ThreadPool& pool;
  Scratch& scratch;
  bool round;  // Activations::kBf16: round at the points that the op headers name
};

void embed(Context& context, const EmbedArgs& args);
void linear(Context& context, const LinearArgs& args);
void mix_norm(Context& context, const MixNormArgs& args);
void kda_mix(Context& context, const KdaMixArgs& args);
void mla_prefill(Context& context, const MlaArgs& args);
void mla_decode(Context& context, const MlaArgs& args);
void glu_mlp(Context& context, const GluMlpArgs& args);
void route(Context& context, const RouteArgs& args);
void expert_mlp(Context& context, const ExpertMlpArgs& args);
void head(Context& context, const HeadArgs& args);

}  // namespace baltoro::cpu
