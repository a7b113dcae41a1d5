// Generated rows of many sequences: one block an SM walks over (sequence, head), its warps at four
// trades that wait for one another by barriers in shared memory alone, each some items ahead of the
// next. The copy engine brings states into a ring in pieces and takes them back. A state warp has 16
// value columns of all key rows, so that no step waits for another warp.
#include "cuda/device/bulk_copy.cuh"
#include "cuda/kda_decode.cuh"
#include "cuda/launch.cuh"
#include "cuda/sm90/kda_stream.cuh"

namespace baltoro::cuda {
namespace {

constexpr int kStateWarps = 8;
constexpr int kInputWarps = 4;
constexpr int kThreads = 32 * (kStateWarps + kInputWarps + 2);  // and one each for outputs, copies
constexpr int kRowsAhead = 4;                                   // inputs made ahead of the steps
constexpr int kOutputsAhead = 4;

// Of states of S. A piece is whole rows of a state.
template <typename S>
struct StreamShared {
  static constexpr int kStages = 12;
  static constexpr std::uint32_t kPieceBytes = 16 << 10;
  static constexpr int kPieceRows = kPieceBytes / (kDecodeHead * sizeof(S));
  S piece[kStages][kPieceRows * kDecodeHead];
  DecodeRow row[kRowsAhead];
  float beta[kRowsAhead];
  float out[kOutputsAhead][kDecodeHead];
  std::uint64_t piece_full[kStages], piece_done[kStages];  // as it was, as it is after the row
  std::uint64_t row_full[kRowsAhead], row_free[kRowsAhead];
  std::uint64_t out_full[kOutputsAhead], out_free[kOutputsAhead];
};

template <typename S>
constexpr int kPieces = kDecodeHead / StreamShared<S>::kPieceRows;

// A walk through a ring of kSize places.
template <int kSize>
struct Place {
  int at = 0;
  std::uint32_t parity = 0;

  __device__ __forceinline__ void next() {
    if (++at == kSize) {
      at = 0;
      parity ^= 1;
    }
  }
  __device__ __forceinline__ void wait_full(std::uint64_t* full) const {
    barrier_wait(&full[at], parity);
  }
  __device__ __forceinline__ void wait_free(std::uint64_t* free) const {
    barrier_wait(&free[at], parity ^ 1);
  }
  // By all lanes of a warp: what they did before is seen by who waits.
  __device__ __forceinline__ void arrive(std::uint64_t* barriers) const {
    __syncwarp();
    if (threadIdx.x % 32 == 0) barrier_arrive(&barriers[at]);
  }
};

// An item of the block: (sequence, head) pairs blockIdx.x, + gridDim.x, ...
struct Item {
  std::int64_t row, slot;
  int head;

  template <typename T>
  __device__ __forceinline__ Item(const KdaParams<T>& p, int number) : head(number % p.heads) {
    const DeviceSequence& sequence = p.sequences[number / p.heads];
    row = sequence.first_row;
    slot = sequence.state_slot;
  }
};
template <typename Body>
__device__ __forceinline__ void for_items(int count, Body&& body) {
  for (int i = static_cast<int>(blockIdx.x); i < count; i += static_cast<int>(gridDim.x)) body(i);
}

// The pieces of the block's items in memory, one after the other.
template <typename T, typename S>
struct Pieces {
  const KdaParams<T>& p;
  int count;
  int item = static_cast<int>(blockIdx.x);
  int piece = 0;
  S* state = find(item);
  S* next_state = find(item + static_cast<int>(gridDim.x));  // before it is needed

  __device__ __forceinline__ S* find(int number) const {
    if (number >= count) return nullptr;
    const Item found(p, number);
    return head_state<S>(p, found.slot, found.head);
  }
  __device__ __forceinline__ S* at() const {
    return state + piece * StreamShared<S>::kPieceRows * kDecodeHead;
  }
  __device__ __forceinline__ void next() {
    if (++piece < kPieces<S>) return;
    piece = 0;
    item += static_cast<int>(gridDim.x);
    state = next_state;
    next_state = find(item + static_cast<int>(gridDim.x));
  }
};

template <typename T, typename S>
__device__ void copy_states(const KdaParams<T>& p, StreamShared<S>& s, int count) {
  constexpr std::uint32_t kBytes = StreamShared<S>::kPieceBytes;
  Pieces<T, S> ahead{p, count}, back{p, count};
  Place<StreamShared<S>::kStages> to, from;
  const auto bring = [&] {
    if (ahead.item >= count) return;
    barrier_expect(&s.piece_full[to.at], kBytes);
    bulk_load(s.piece[to.at], ahead.at(), kBytes, &s.piece_full[to.at]);
    ahead.next();
    to.next();
  };
  for (int i = 0; i < StreamShared<S>::kStages; ++i) bring();
  for (bool is_first = true; back.item < count; back.next(), from.next(), is_first = false) {
    from.wait_full(s.piece_done);
    bulk_store_begin(back.at(), s.piece[from.at], kBytes);
    if (is_first) continue;
    bulk_stores_read<1>();  // the piece before this one may be written over
    bring();
  }
  bulk_stores_read<0>();
}

template <typename T, typename S>
__device__ void make_rows(const KdaParams<T>& p, StreamShared<S>& s, int count, int thread) {
  DecodeInputs<T, 32 * kInputWarps> in{thread};
  const auto load = [&](const Item& item) {
    in.load_weights(p, item.head);
    in.load_slot(p, item.slot, item.head);
    in.load_row(p, item.row, item.head);
  };
  Place<kRowsAhead> to;
  if (static_cast<int>(blockIdx.x) < count) load(Item(p, static_cast<int>(blockIdx.x)));
  for_items(count, [&](int number) {
    const Item item(p, number);
    to.wait_free(s.row_free);
    in.make(p, s.row[to.at]);
    if (thread == 0) s.beta[to.at] = in.beta;
    in.store_slot(p, item.slot, item.head);
    to.arrive(s.row_full);
    to.next();
    const int ahead = number + static_cast<int>(gridDim.x);
    if (ahead < count) load(Item(p, ahead));
  });
}

template <typename S>
__device__ void step_states(StreamShared<S>& s, int count, int warp, int lane) {
  using Shared = StreamShared<S>;
  constexpr int kOwnRows = kDecodeHead / kRowClasses;
  constexpr int kOfPiece = kOwnRows / kPieces<S>;
  constexpr int kColumns = kDecodeHead / kStateWarps;  // of a warp, four a lane
  const int row_class = lane / 4;
  const int column = warp * kColumns + 4 * (lane % 4);  // the first of the lane's four
  const int own_column = column + row_class % 4;        // that it has a sum of
  const int offset = row_class * kDecodeHead + column;
  Place<Shared::kStages> from, to;
  Place<kRowsAhead> inputs;
  Place<kOutputsAhead> outputs;
  for_items(count, [&](int) {
    inputs.wait_full(s.row_full);
    const DecodeRow& row = s.row[inputs.at];
    const Norms norms = norms_of(row, lane);
    const float beta = sigmoid(s.beta[inputs.at]);
    float4 x[kOwnRows];
    float4 by_k{}, by_q{};
#pragma unroll
    for (int piece = 0; piece < kPieces<S>; ++piece, from.next()) {
      from.wait_full(s.piece_full);
#pragma unroll
      for (int i = 0; i < kOfPiece; ++i) {
        const int d = row_class + kRowClasses * (piece * kOfPiece + i);
        float4& own = x[piece * kOfPiece + i];
        own = load_four(s.piece[from.at] + offset + i * kRowClasses * kDecodeHead);
        own = scaled(row.decay[d], own);
        by_k = fma(row.k[d], own, by_k);
        by_q = fma(row.q[d], own, by_q);
      }
    }
    // delta = beta (v - S^T k) in the lower lanes, o = S'^T q = S^T q + (q . k) delta in the upper.
    const float sum = sum_classes(by_k, by_q, lane);
    const float own_delta = beta * fmaf(-norms.k, sum, row.v[own_column]);
    const auto delta_of = [&](int i) { return __shfl_sync(0xffffffffu, own_delta, i); };
    const int i = lane % 4;
    const float4 delta{delta_of(i), delta_of(i + 4), delta_of(i + 8), delta_of(i + 12)};
    const float o = fmaf(norms.qk, delta_of(lane % 16), norms.q * sum);
#pragma unroll
    for (int piece = 0; piece < kPieces<S>; ++piece, to.next()) {
#pragma unroll
      for (int i = 0; i < kOfPiece; ++i) {
        const int d = row_class + kRowClasses * (piece * kOfPiece + i);
        store_four(s.piece[to.at] + offset + i * kRowClasses * kDecodeHead,
                   fma(norms.k * row.k[d], delta, x[piece * kOfPiece + i]));
      }
      bulk_store_fence();
      to.arrive(s.piece_done);
    }
    inputs.arrive(s.row_free);
    inputs.next();
    outputs.wait_free(s.out_free);
    if (lane >= 16) s.out[outputs.at][own_column] = o;
    outputs.arrive(s.out_full);
    outputs.next();
  });
}

template <typename T, typename S>
__device__ void write_outputs(const KdaParams<T>& p, StreamShared<S>& s, int count, int lane) {
  const float4 norm = reinterpret_cast<const float4*>(p.o_norm)[lane];
  const auto place = [&](const Item& item) {
    return (item.row * p.heads + item.head) * kDecodeHead + 4 * lane;
  };
  Place<kOutputsAhead> from;
  float4 gate{};
  if (static_cast<int>(blockIdx.x) < count) {
    gate = load_gate(p, place(Item(p, static_cast<int>(blockIdx.x))));
  }
  for_items(count, [&](int number) {
    const float4 own_gate = gate;
    const int ahead = number + static_cast<int>(gridDim.x);
    if (ahead < count) gate = load_gate(p, place(Item(p, ahead)));
    from.wait_full(s.out_full);
    const float4 o = reinterpret_cast<const float4*>(s.out[from.at])[lane];
    from.arrive(s.out_free);
    from.next();
    store_decoded(p, place(Item(p, number)), o, norm, own_gate);
  });
}

template <typename T, typename S>
__global__ void __launch_bounds__(kThreads, 1) stream_rows(KdaParams<T> p, int count) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  extern __shared__ __align__(128) unsigned char raw[];
  StreamShared<S>& s = *reinterpret_cast<StreamShared<S>*>(raw);
  if (threadIdx.x == 0) {
    const auto init = [](auto& barriers, std::uint32_t arrivals) {
      for (std::uint64_t& barrier : barriers) barrier_init(&barrier, arrivals);
    };
    init(s.piece_full, 1);
    init(s.piece_done, kStateWarps);
    init(s.row_full, kInputWarps);
    init(s.row_free, kStateWarps);
    init(s.out_full, kStateWarps);
    init(s.out_free, 1);
    barrier_init_fence();
  }
  __syncthreads();
  const auto thread = static_cast<int>(threadIdx.x);
  const int warp = thread / 32, lane = thread % 32;
  if (warp < kStateWarps) {
    step_states(s, count, warp, lane);
  } else if (warp < kStateWarps + kInputWarps) {
    make_rows(p, s, count, thread - 32 * kStateWarps);
  } else if (warp == kStateWarps + kInputWarps) {
    write_outputs(p, s, count, lane);
  } else if (lane == 0) {
    copy_states(p, s, count);
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
            .block = dim3(kThreads),
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
