#include "cuda/product.h"

#include <algorithm>

#include "core/dtype.h"

namespace baltoro::cuda {
namespace {

// Rows of x up to which a kernel is the fastest, measured on an H200 (docs/cuda/dense.md).
constexpr std::int64_t kStreamRows = 16;       // where cuBLASLt is the other choice
constexpr std::int64_t kPackedRows = 64;       // of MXINT8, where the other is to write it out
constexpr std::int64_t kStreamRowsAlone = 64;  // where it is not

enum class Way : std::uint8_t { kStream, kTiled, kLarge };

bool is_aligned(const void* pointer, std::uintptr_t bytes) {
  return reinterpret_cast<std::uintptr_t>(pointer) % bytes == 0;
}

// Who takes a weight. Each kind can also go the way of the one before it.
enum class Part : std::uint8_t {
  kPlain,   // whatever the tensor cores do not
  kTensor,  // bf16, or to be written out as such
  kPacked,  // MXINT8 as it is stored
};

Part part_of(const Context& context, const Product& product, const WeightView& weight) {
  if (context.activation != DType::kBf16 || product.cols % 8 != 0 || !is_aligned(product.x, 16) ||
      product.cols > (1 << 30)) {
    return Part::kPlain;
  }
  // The order of summation there is its own, so that deterministic mode stays with it.
  if (weight.format == WeightFormat::kMxint8 && is_aligned(weight.data, 16) &&
      (product.rows <= kPackedRows || context.deterministic)) {
    return Part::kPacked;
  }
  const bool is_bf16 = weight.format == WeightFormat::kBf16 && is_aligned(weight.data, 16);
  return weight.grouped() || is_bf16 ? Part::kTensor : Part::kPlain;
}

Way way_of(Context& context, const Product& product) {
  if (product.rows <= kStreamRows) return Way::kStream;
  if (!context.deterministic && multiply_large_serves(context, product)) return Way::kLarge;
  return product.rows <= kStreamRowsAlone ? Way::kStream : Way::kTiled;
}

// The product by who takes its weights. Those to be written out come one after the other, so that
// one room serves them all; gate and up stay together.
struct Parts {
  Product plain, tensor, packed;
  Product widened[LinearArgs::kMaxOutputs];
  int num_widened = 0;
};

Parts parts_of(const Context& context, const Product& product) {
  Parts parts{product, product, product, {}};
  parts.plain.num_outputs = parts.tensor.num_outputs = parts.packed.num_outputs = 0;
  const int together = product.finish == Finish::kGlu ? 2 : 1;
  for (int i = 0; i < product.num_outputs; i += together) {
    Part part = Part::kPacked;
    bool to_widen = false;
    for (int j = i; j < i + together; ++j) {
      const WeightView& weight = product.outputs[j].weight;
      part = std::min(part, part_of(context, product, weight));
      to_widen = to_widen || weight.grouped();
    }
    Product* to = &parts.tensor;
    if (part == Part::kPlain) to = &parts.plain;
    if (part == Part::kPacked) to = &parts.packed;
    if (part == Part::kTensor && to_widen) {
      to = &parts.widened[parts.num_widened++];
      *to = product;
      to->num_outputs = 0;
    }
    for (int j = i; j < i + together; ++j) to->outputs[to->num_outputs++] = product.outputs[j];
  }
  return parts;
}

// The product with MX weights as bf16 one after the other in `room`.
Product as_bf16(const Product& product, std::byte* room) {
  Product wide = product;
  for (int i = 0; i < wide.num_outputs; ++i) {
    WeightView& weight = wide.outputs[i].weight;
    if (!weight.grouped()) continue;
    const std::int64_t values = weight.rows * weight.cols;
    weight = {room, nullptr, WeightFormat::kBf16, weight.rows, weight.cols};
    wide.fresh_weights = true;
    room += Scratch::bytes_of<std::uint16_t>(values);
  }
  return wide;
}

std::size_t room_bytes(const Product& product) {
  std::size_t bytes = 0;
  for (int i = 0; i < product.num_outputs; ++i) {
    const WeightView& weight = product.outputs[i].weight;
    if (weight.grouped()) bytes += Scratch::bytes_of<std::uint16_t>(weight.rows * weight.cols);
  }
  return bytes;
}

std::size_t largest_room(const Parts& parts) {
  std::size_t bytes = 0;
  for (int i = 0; i < parts.num_widened; ++i) {
    bytes = std::max(bytes, room_bytes(parts.widened[i]));
  }
  return bytes;
}

std::size_t run_scratch(Context& context, const Product& product) {
  if (product.num_outputs == 0 || way_of(context, product) != Way::kLarge) return 0;
  return multiply_large_scratch(product);
}

void run(Context& context, const Product& product) {
  if (product.num_outputs == 0) return;
  switch (way_of(context, product)) {
    case Way::kStream:
      return multiply_stream(context, product);
    case Way::kTiled:
      return multiply_tiled(context, product);
    case Way::kLarge:
      return multiply_large(context, product);
  }
}

}  // namespace

std::size_t multiply_scratch(Context& context, const Product& product) {
  const Parts parts = parts_of(context, product);
  std::size_t bytes = run_scratch(context, parts.tensor) + largest_room(parts);
  for (int i = 0; i < parts.num_widened; ++i) {
    bytes += run_scratch(context, as_bf16(parts.widened[i], nullptr));
  }
  return bytes;
}

void multiply(Context& context, const Product& product) {
  if (product.rows == 0) return;
  const Parts parts = parts_of(context, product);
  if (parts.plain.num_outputs > 0) multiply_plain(context, parts.plain);
  if (parts.packed.num_outputs > 0) multiply_stream(context, parts.packed);
  run(context, parts.tensor);
  const auto room = static_cast<std::int64_t>(largest_room(parts));
  std::byte* widened = room > 0 ? context.scratch.take<std::byte>(room) : nullptr;
  for (int i = 0; i < parts.num_widened; ++i) {
    const Product wide = as_bf16(parts.widened[i], widened);
    for (int j = 0; j < wide.num_outputs; ++j) {
      const WeightView& stored = parts.widened[i].outputs[j].weight;
      if (!stored.grouped()) continue;
      write_bf16(context, stored, const_cast<void*>(wide.outputs[j].weight.data));
    }
    run(context, wide);
  }
}

}  // namespace baltoro::cuda
