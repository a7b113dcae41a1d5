// Generated rows of many sequences: one block an SM walks over (sequence, head). The copy engine
// brings states into a ring of shared memory and takes them back, so that reads and writes are
// under way all the time, whatever the steps wait for.
#include "cuda/device/bulk_copy.cuh"
#include "cuda/kda_decode.cuh"
#include "cuda/launch.cuh"
#include "cuda/sm90/kda_stream.cuh"

namespace baltoro::cuda {
namespace {

constexpr int kWarps = 8;  // that compute; one more copies
constexpr int kStateSize = kDecodeHead * kDecodeHead;

// Of states of S: as many bytes are under way for either type.
template <typename S>
struct StreamShared {
  static constexpr int kStages = 3 * sizeof(float) / sizeof(S);
  static constexpr std::uint32_t kStateBytes = kStateSize * sizeof(S);
  S state[kStages][kStateSize];
  DecodeShared<kWarps> row;
  std::uint64_t full[kStages];  // the state is there
  std::uint64_t done[kStages];  // the state after its rows is there
};

// Items of one block: (sequence, head) pairs blockIdx.x, + gridDim.x, ...
template <typename S, typename T>
__device__ S* item_state(const KdaParams<T>& p, int item) {
  return head_state<S>(p, p.sequences[item / p.heads].state_slot, item % p.heads);
}

template <typename T, typename S>
__device__ void copy_states(const KdaParams<T>& p, StreamShared<S>& s, int num_items) {
  constexpr int kStages = StreamShared<S>::kStages;
  constexpr std::uint32_t kStateBytes = StreamShared<S>::kStateBytes;
  const int step = static_cast<int>(gridDim.x);
  const auto bring = [&](int item, int stage) {
    barrier_expect(&s.full[stage], kStateBytes);
    bulk_load(s.state[stage], item_state<S>(p, item), kStateBytes, &s.full[stage]);
  };
  int ahead = static_cast<int>(blockIdx.x);
  for (int i = 0; i < kStages && ahead < num_items; ++i, ahead += step) bring(ahead, i);
  int i = 0;
  for (int item = static_cast<int>(blockIdx.x); item < num_items; item += step, ++i) {
    const int stage = i % kStages;
    S* to = item_state<S>(p, item);
    barrier_wait(&s.done[stage], (i / kStages) & 1);
    bulk_store(to, s.state[stage], kStateBytes);
    if (ahead < num_items) bring(ahead, stage);
    ahead += step;
  }
}

template <typename T, typename S>
__global__ void __launch_bounds__(32 * (kWarps + 1), 1) stream_rows(KdaParams<T> p, int num_items) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  extern __shared__ __align__(128) unsigned char raw[];
  constexpr int kStages = StreamShared<S>::kStages;
  StreamShared<S>& s = *reinterpret_cast<StreamShared<S>*>(raw);
  if (threadIdx.x == 0) {
    for (int i = 0; i < kStages; ++i) {
      barrier_init(&s.full[i], 1);
      barrier_init(&s.done[i], 32 * kWarps);
    }
    barrier_init_fence();
  }
  __syncthreads();
  if (threadIdx.x >= 32 * kWarps) {
    if (threadIdx.x == 32 * kWarps) copy_states(p, s, num_items);
    return;
  }
  using Thread = DecodeThread<T, kWarps>;
  Thread thread(p);
  typename Thread::Inputs in;
  const auto load_inputs = [&](int item) {
    const DeviceSequence sequence = p.sequences[item / p.heads];
    const int head = item % p.heads;
    in.load_weights(p, head, thread.first);
    in.load_slot(p, sequence.state_slot, head, thread.first);
    in.load_row(p, sequence.first_row, head, thread.first, thread.lane);
  };
  int item = static_cast<int>(blockIdx.x);
  if (item < num_items) load_inputs(item);
  for (int i = 0; item < num_items; item += static_cast<int>(gridDim.x), ++i) {
    const int stage = i % kStages, head = item % p.heads;
    const DeviceSequence sequence = p.sequences[item / p.heads];
    if (i > 0) sync_head<kWarps>();  // the row before has been read
    thread.prepare(s.row, in);
    in.store_slot(p, sequence.state_slot, head, thread.first);
    const float beta = in.beta;
    const float gate[4] = {in.gate[0], in.gate[1], in.gate[2], in.gate[3]};
    // What the next item reads is under way during the step of this one.
    if (item + static_cast<int>(gridDim.x) < num_items) {
      load_inputs(item + static_cast<int>(gridDim.x));
    }
    barrier_wait(&s.full[stage], (i / kStages) & 1);
    thread.load_state(s.state[stage]);
    sync_head<kWarps>();
    thread.advance(s.row,
                   (static_cast<std::int64_t>(sequence.first_row) * p.heads + head) * kDecodeHead,
                   beta, gate);
    thread.store_state(s.state[stage]);
    bulk_store_fence();
    barrier_arrive(&s.done[stage]);
  }
#endif
}

}  // namespace

template <typename T>
bool has_kda_stream(const Context& context) {
  cudaFuncAttributes attributes{};
  check(cudaFuncGetAttributes(&attributes, stream_rows<T, float>), "look at the KDA kernels");
  return context.device.is_hopper() && attributes.ptxVersion >= 90;
}

template <typename T>
void kda_stream(Context& context, const KdaParams<T>& p, const DeviceBatch& batch) {
  with_state_type(p, [&](auto state) {
    launch({.name = "kda_mix, many generated rows",
            .grid = dim3(static_cast<unsigned>(context.device.num_sms)),
            .block = dim3(32 * (kWarps + 1)),
            .shared_bytes = sizeof(StreamShared<decltype(state)>),
            .stream = context.stream},
           stream_rows<T, decltype(state)>, p, p.heads * batch.num_sequences);
  });
}

template bool has_kda_stream<float>(const Context&);
template bool has_kda_stream<bf16>(const Context&);
template void kda_stream(Context&, const KdaParams<float>&, const DeviceBatch&);
template void kda_stream(Context&, const KdaParams<bf16>&, const DeviceBatch&);

}  // namespace baltoro::cuda
