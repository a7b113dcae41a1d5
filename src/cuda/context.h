// What every CUDA op works with, and the ops themselves, one .cu file each.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <span>

#include "cuda/batch_stage.h"
#include "cuda/cublaslt.h"
#include "cuda/device_info.h"
#include "cuda/scratch.h"
#include "ops/backend.h"
#include "ops/head.h"

namespace baltoro::cuda {

struct Context {
  const DeviceInfo& device;
  cudaStream_t stream;  // all work is ordered on it
  Scratch& scratch;
  BatchStage& stage;
  CublasLt& blas;
  // kBf16: activations are stored as bf16 and rounded where the op headers say; kF32: nowhere.
  DType activation;
  // The contract of docs/numerics.md: bits of a row do not depend on how many rows are computed
  // together. Without it a faster kernel may sum in another order for another number of rows.
  bool deterministic;
  // In device memory, 0 between kernels: where the blocks of one count those that are done.
  unsigned* arrived;
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
// args.logits and args.bad are device memory here: the backend brings them to the host.
void head(Context& context, const HeadArgs& args);
// From the rows of `logits` [n, V] in device memory; drawn [n] is memory that host and device reach.
void draw(Context& context, const float* logits, std::int64_t vocab, std::span<const Draw> draws,
          Drawn* drawn);

}  // namespace baltoro::cuda
