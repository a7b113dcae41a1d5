// One launch from conv to gate for generated rows, in the head size of the released models. A block
// holds one head's state in registers; the state is read and written once, which is nearly all of
// the traffic.
#include "cuda/device/overlap.cuh"
#include "cuda/kda_decode.cuh"
#include "cuda/launch.cuh"
#include "cuda/sm90/kda_share.cuh"
#include "cuda/sm90/kda_stream.cuh"

namespace baltoro::cuda {
namespace {

// Grid: (head, sequence). `few`: at most one block an SM; the launch overlaps the kernel before.
template <typename T, typename S, int kWarps, int kMinBlocks>
__global__ void __launch_bounds__(32 * kWarps, kMinBlocks) decode_rows(KdaParams<T> p, bool few) {
  __shared__ DecodeShared<kWarps> shared;
  const int head = static_cast<int>(blockIdx.x);
  const DeviceSequence sequence = p.sequences[blockIdx.y];
  S* state = head_state<S>(p, sequence.state_slot, head);
  DecodeThread<T, kWarps> thread(p);
  typename DecodeThread<T, kWarps>::Inputs in;
  if (few) {
    thread.prefetch_state(state);
    in.prefetch_slot(p, sequence.state_slot, head, thread.first);
  }
  in.load_weights(p, head, thread.first);
  wait_for_previous_kernel();
  if (!sequence.is_generated) return;
  thread.load_state(state);
  in.load_slot(p, sequence.state_slot, head, thread.first);
  for (std::int64_t t = 0; t < sequence.num_rows; ++t) {
    const std::int64_t row = sequence.first_row + t;
    in.load_row(p, row, head, thread.first, thread.lane);
    if (t > 0) sync_head<kWarps>();
    thread.prepare(shared, in);
    sync_head<kWarps>();
    // The inputs are here, and the state as good as: what the next kernel reads does not compete.
    if (t == 0) start_next_kernel();
    thread.advance(shared, (row * p.heads + head) * kDecodeHead, in.beta, in.gate);
    thread.template round_state<S>();
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
  if (items * kShareBlocks <= context.device.num_sms && has_kda_share<T>(context)) {
    kda_share(context, p, batch);
    return;
  }
  constexpr int kWarps = 8, kMinBlocks = 2;
  const bool few = items <= context.device.num_sms;
  with_state_type(p, [&](auto state) {
    launch(
        {.name = "kda_mix, generated rows",
         .grid = dim3(static_cast<unsigned>(p.heads), static_cast<unsigned>(batch.num_sequences)),
         .block = dim3(32 * kWarps),
         .stream = context.stream,
         .overlap = few},
        decode_rows<T, decltype(state), kWarps, kMinBlocks>, p, few);
  });
}

template void kda_decode(Context&, const KdaParams<float>&, const DeviceBatch&);
template void kda_decode(Context&, const KdaParams<bf16>&, const DeviceBatch&);

}  // namespace baltoro::cuda
