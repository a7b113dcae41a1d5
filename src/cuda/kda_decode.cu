// One launch from conv to gate for generated rows, in the head size of the released models. A block
// holds one head's state in registers; the state is read and written once, which is nearly all of
// the traffic.
#include <type_traits>

#include "cuda/device/overlap.cuh"
#include "cuda/kda_decode.cuh"
#include "cuda/launch.cuh"
#include "cuda/sm90/kda_share.cuh"
#include "cuda/sm90/kda_stream.cuh"

namespace baltoro::cuda {
namespace {

constexpr int kWarps = kRowClasses;
constexpr int kThreads = 32 * kWarps;
constexpr int kRows = kDecodeHead / kWarps;

struct BlockShared : DecodeRow {
  // Sums over one warp's rows of the decayed state times k and times q.
  float4 by_k[kWarps][kDecodeHead / 4];
  float4 by_q[kWarps][kDecodeHead / 4];
};

// A thread's part of a head's state, [Dk, Dv] of S in memory: the rows of its warp's class, four
// columns.
template <typename S>
struct ThreadState {
  int warp, lane;
  S* at;  // the first row's
  float4 x[kRows];

  __device__ explicit ThreadState(S* head)
      : warp(static_cast<int>(threadIdx.x) / 32),
        lane(static_cast<int>(threadIdx.x) % 32),
        at(head + warp * kDecodeHead + 4 * lane) {}

  __device__ void load() {
#pragma unroll
    for (int i = 0; i < kRows; ++i) x[i] = load_four(at + i * kWarps * kDecodeHead);
  }
  __device__ void store() const {
#pragma unroll
    for (int i = 0; i < kRows; ++i) store_four(at + i * kWarps * kDecodeHead, x[i]);
  }
  // What store and load would make of it.
  __device__ void round() {
    if constexpr (!std::is_same_v<S, float>) {
#pragma unroll
      for (float4& s : x) {
        s = {round_as<S>(s.x), round_as<S>(s.y), round_as<S>(s.z), round_as<S>(s.w)};
      }
    }
  }
  // The delta rule of a row, after a barrier; warp 0 gives its outputs to `store_out`.
  template <typename StoreOut>
  __device__ void advance(BlockShared& shared, float beta, StoreOut&& store_out) {
    const Norms norms = norms_of(shared, lane);
    float4 by_k{}, by_q{};
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
      const int d = warp + kWarps * i;
      x[i] = scaled(shared.decay[d], x[i]);
      by_k = fma(shared.k[d], x[i], by_k);
      by_q = fma(shared.q[d], x[i], by_q);
    }
    shared.by_k[warp][lane] = by_k;
    shared.by_q[warp][lane] = by_q;
    __syncthreads();
    // delta = beta (v - S^T k);  o = S'^T q = S^T q + (q . k) delta
    const float4 v = reinterpret_cast<const float4*>(shared.v)[lane];
    const float4 delta = scaled(sigmoid(beta), fma(-norms.k, sum_classes(shared.by_k, lane), v));
    if (warp == 0) {
      store_out(fma(norms.qk, delta, scaled(norms.q, sum_classes(shared.by_q, lane))));
    }
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
      x[i] = fma(norms.k * shared.k[warp + kWarps * i], delta, x[i]);
    }
  }
};

// Grid: (head, sequence). `few`: at most one block an SM; the launch overlaps the kernel before.
template <typename T, typename S>
__global__ void __launch_bounds__(kThreads, 2) decode_rows(KdaParams<T> p, bool few) {
  __shared__ BlockShared shared;
  const int head = static_cast<int>(blockIdx.x);
  const DeviceSequence sequence = p.sequences[blockIdx.y];
  S* own = head_state<S>(p, sequence.state_slot, head);
  ThreadState<S> state(own);
  DecodeInputs<T, kThreads> in{static_cast<int>(threadIdx.x)};
  const float4 norm = reinterpret_cast<const float4*>(p.o_norm)[state.lane];
  if (few) {
    constexpr int kLine = 128 / sizeof(S);
    for (int i = in.thread * kLine; i < kDecodeHead * kDecodeHead; i += kThreads * kLine) {
      asm volatile("prefetch.global.L2 [%0];" ::"l"(own + i));
    }
    in.prefetch_slot(p, sequence.state_slot, head);
  }
  in.load_weights(p, head);
  wait_for_previous_kernel();
  if (!sequence.is_generated) return;
  state.load();
  in.load_slot(p, sequence.state_slot, head);
  for (std::int64_t t = 0; t < sequence.num_rows; ++t) {
    const std::int64_t row = sequence.first_row + t;
    const std::int64_t out = (row * p.heads + head) * kDecodeHead + 4 * state.lane;
    in.load_row(p, row, head);
    const float4 gate = load_gate(p, out);
    if (t > 0) __syncthreads();
    in.make(p, shared);
    __syncthreads();
    // The inputs are here, and the state as good as: what the next kernel reads does not compete.
    if (t == 0) start_next_kernel();
    state.advance(shared, in.beta, [&](float4 o) { store_decoded(p, out, o, norm, gate); });
    state.round();
  }
  state.store();
  in.store_slot(p, sequence.state_slot, head);
}

}  // namespace

template <typename T>
void kda_decode(Context& context, const KdaParams<T>& p, const DeviceBatch& batch) {
  const std::int64_t items = static_cast<std::int64_t>(p.heads) * batch.num_sequences;
  const bool few = items <= context.device.num_sms;
  const bool single_rows = batch.num_blocks == 0 && batch.num_rows == batch.num_sequences;
  if (single_rows && !few && has_kda_stream<T>(context)) {
    kda_stream(context, p, batch);
    return;
  }
  if (items * kShareBlocks <= context.device.num_sms && has_kda_share<T>(context)) {
    kda_share(context, p, batch);
    return;
  }
  with_state_type(p, [&](auto state) {
    launch(
        {.name = "kda_mix, generated rows",
         .grid = dim3(static_cast<unsigned>(p.heads), static_cast<unsigned>(batch.num_sequences)),
         .block = dim3(kThreads),
         .stream = context.stream,
         .overlap = few},
        decode_rows<T, decltype(state)>, p, few);
  });
}

template void kda_decode(Context&, const KdaParams<float>&, const DeviceBatch&);
template void kda_decode(Context&, const KdaParams<bf16>&, const DeviceBatch&);

}  // namespace baltoro::cuda
