// Generated rows where one block a head would leave multiprocessors idle: a cluster shares a head by
// value columns. Each block makes the inputs of the whole head; only the sum of squares of the output
// norm needs all columns, which the blocks send one another.
#include "cuda/device/overlap.cuh"
#include "cuda/kda_decode.cuh"
#include "cuda/launch.cuh"
#include "cuda/sm90/kda_share.cuh"
#include "cuda/sm90/tma.cuh"

namespace baltoro::cuda {
namespace {

constexpr int kWarps = kRowClasses;
constexpr int kThreads = 32 * kWarps;
constexpr int kColumns = kDecodeHead / kShareBlocks;  // of a block, one a lane
constexpr int kRows = kDecodeHead / kWarps;           // of the state, of a warp
static_assert(kColumns == 32);

struct ShareShared : DecodeRow {
  float by_k[kWarps][kColumns];
  float by_q[kWarps][kColumns];
  float out[2][kDecodeHead];  // of all blocks, of even and odd rows
};

// The block's columns of a head's state, of S: the rows of the warp's class, the lane's column.
template <typename S>
struct StateColumns {
  S* at;  // row 0, column of the lane
  float value[kRows];

  __device__ __forceinline__ S* row(int i) const {
    return at + (static_cast<int>(threadIdx.x) / 32 + kWarps * i) * kDecodeHead;
  }
  __device__ __forceinline__ void load() {
#pragma unroll
    for (int i = 0; i < kRows; ++i) value[i] = to_f32(*row(i));
  }
  __device__ __forceinline__ void store() const {
#pragma unroll
    for (int i = 0; i < kRows; ++i) *row(i) = from_f32<S>(value[i]);
  }

  // The delta rule of one row; the block's outputs go to all blocks.
  __device__ __forceinline__ void advance(ShareShared& shared, float beta, int share, float* out) {
    const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
    const Norms norms = norms_of(shared, lane);
    float by_k = 0, by_q = 0;
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
      const int d = warp + kWarps * i;
      value[i] = shared.decay[d] * value[i];
      by_k = fmaf(shared.k[d], value[i], by_k);
      by_q = fmaf(shared.q[d], value[i], by_q);
    }
    shared.by_k[warp][lane] = by_k;
    shared.by_q[warp][lane] = by_q;
    __syncthreads();
    const float v = shared.v[share * kColumns + lane];
    const float delta = sigmoid(beta) * fmaf(-norms.k, sum_classes(shared.by_k, lane), v);
    if (warp < kShareBlocks) {
      const float read = norms.q * sum_classes(shared.by_q, lane);
      sm90::store_in_cluster(out + share * kColumns + lane, warp, fmaf(norms.qk, delta, read));
    }
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
      value[i] = round_as<S>(fmaf(norms.k * shared.k[warp + kWarps * i], delta, value[i]));
    }
  }
};

// Grid: (block of a head, sequence).
template <typename T, typename S>
__global__ void __launch_bounds__(kThreads) BALTORO_CLUSTER(kShareBlocks)
    share_rows(KdaParams<T> p) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  __shared__ ShareShared shared;
  sm90::cluster_arrive();
  const auto thread = static_cast<int>(threadIdx.x);
  const int warp = thread / 32, lane = thread % 32;
  const int head = static_cast<int>(blockIdx.x) / kShareBlocks;
  const int share = static_cast<int>(blockIdx.x) % kShareBlocks;
  const DeviceSequence sequence = p.sequences[blockIdx.y];
  S* own = head_state<S>(p, sequence.state_slot, head) + share * kColumns;
  if (thread < kDecodeHead) {
    asm volatile("prefetch.global.L2 [%0];" ::"l"(own + thread * kDecodeHead));
  }
  DecodeInputs<T, kThreads> in{thread};
  in.prefetch_slot(p, sequence.state_slot, head);
  in.load_weights(p, head);
  const float4 norm = reinterpret_cast<const float4*>(p.o_norm)[lane];
  sm90::cluster_wait();  // every block has started: its shared memory may be written
  wait_for_previous_kernel();
  if (!sequence.is_generated) return;
  StateColumns<S> state{own + lane, {}};
  state.load();
  in.load_slot(p, sequence.state_slot, head);
  for (std::int64_t t = 0; t < sequence.num_rows; ++t) {
    const std::int64_t row = sequence.first_row + t;
    const std::int64_t at = (row * p.heads + head) * kDecodeHead + 4 * lane;
    in.load_row(p, row, head);
    const float4 gate = load_gate(p, at);
    in.make(p, shared);
    __syncthreads();
    if (t == 0) start_next_kernel();
    float* out = shared.out[t % 2];
    state.advance(shared, in.beta, share, out);
    sm90::cluster_sync();
    if (warp == 0) {
      const float4 o = reinterpret_cast<const float4*>(out)[lane];
      store_decoded(p, at, o, norm, gate, 4 * lane / kColumns == share);
    }
  }
  state.store();
  // All blocks have read the history before the barrier of a row.
  if (share == 0 && sequence.num_rows > 0) in.store_slot(p, sequence.state_slot, head);
#endif
}

}  // namespace

template <typename T>
bool has_kda_share(const Context& context) {
  cudaFuncAttributes attributes{};
  check(cudaFuncGetAttributes(&attributes, share_rows<T, float>), "look at the KDA kernels");
  return context.device.is_hopper() && attributes.ptxVersion >= 90;
}

template <typename T>
void kda_share(Context& context, const KdaParams<T>& p, const DeviceBatch& batch) {
  with_state_type(p, [&](auto state) {
    launch({.name = "kda_mix, generated rows of few heads",
            .grid = dim3(static_cast<unsigned>(p.heads * kShareBlocks),
                         static_cast<unsigned>(batch.num_sequences)),
            .block = dim3(kThreads),
            .stream = context.stream,
            .overlap = true},
           share_rows<T, decltype(state)>, p);
  });
}

template bool has_kda_share<float>(const Context&);
template bool has_kda_share<bf16>(const Context&);
template void kda_share(Context&, const KdaParams<float>&, const DeviceBatch&);
template void kda_share(Context&, const KdaParams<bf16>&, const DeviceBatch&);

}  // namespace baltoro::cuda
