// One launch from conv to gate for generated rows, in the head size of the released models. A block
// holds one head's state in registers; the state is read and written once, which is nearly all of
// the traffic.
#include "cuda/kda_decode.cuh"
#include "cuda/launch.cuh"
#include "cuda/sm90/kda_stream.cuh"

namespace baltoro::cuda {
namespace {

// Grid: (head, sequence).
template <typename T, int kWarps, int kMinBlocks>
__global__ void __launch_bounds__(32 * kWarps, kMinBlocks) decode_rows(KdaParams<T> p) {
  __shared__ DecodeShared<kWarps> shared;
  const DeviceSequence sequence = p.sequences[blockIdx.y];
  if (!sequence.is_generated) return;
  const int head = static_cast<int>(blockIdx.x);
  DecodeThread<T, kWarps> thread(p);
  float* state = head_state(p, sequence.state_slot, head);
  thread.load_state(state);
  typename DecodeThread<T, kWarps>::Inputs in;
  in.load_slot(p, sequence.state_slot, head, thread.first);
  for (std::int64_t t = 0; t < sequence.num_rows; ++t) {
    const std::int64_t row = sequence.first_row + t;
    in.load_row(p, row, head, thread.first, thread.lane);
    if (t > 0) sync_head<kWarps>();
    thread.prepare(shared, in);
    sync_head<kWarps>();
    thread.advance(shared, (row * p.heads + head) * kDecodeHead, in.beta, in.gate);
  }
  thread.store_state(state);
  in.store_slot(p, sequence.state_slot, head, thread.first);
}

}  // namespace

template <typename T>
void kda_decode(Context& context, const KdaParams<T>& p, const DeviceBatch& batch) {
  // Measured on an H200: below, starting with all SMs at once counts for more than a steady stream.
  constexpr std::int64_t kStreamItems = 64;
  const std::int64_t items = static_cast<std::int64_t>(p.heads) * batch.num_sequences;
  const bool single_rows = batch.num_blocks == 0 && batch.num_rows == batch.num_sequences;
  if (single_rows && items > kStreamItems * context.device.num_sms && has_kda_stream<T>(context)) {
    kda_stream(context, p, batch);
    return;
  }
  constexpr int kWarps = 8, kMinBlocks = 2;
  launch({.name = "kda_mix, generated rows",
          .grid = dim3(static_cast<unsigned>(p.heads), static_cast<unsigned>(batch.num_sequences)),
          .block = dim3(32 * kWarps),
          .stream = context.stream},
         decode_rows<T, kWarps, kMinBlocks>, p);
}

template void kda_decode(Context&, const KdaParams<float>&, const DeviceBatch&);
template void kda_decode(Context&, const KdaParams<bf16>&, const DeviceBatch&);

}  // namespace baltoro::cuda
