#include "cuda/product.h"

#include "core/dtype.h"

namespace baltoro::cuda {
namespace {

// Rows of x up to which a kernel is the fastest, measured on an H200 (docs/cuda/dense.md).
constexpr std::int64_t kStreamRows = 8;          // where cuBLASLt is the other choice
constexpr std::int64_t kStreamRowsGrouped = 32;  // the same for several weights on one x
constexpr std::int64_t kStreamRowsAlone = 64;    // where it is not
constexpr int kGrouped = 3;

enum class Way : std::uint8_t { kStream, kTiled, kLarge };

bool is_aligned(const void* pointer) { return reinterpret_cast<std::uintptr_t>(pointer) % 16 == 0; }

// Whether the tensor cores can take the weight, after it was written out as bf16 where need be.
bool is_tensor_weight(const Context& context, const Product& product, const WeightView& weight) {
  if (context.activation != DType::kBf16 || product.cols % 8 != 0 || !is_aligned(product.x) ||
      product.cols > (1 << 30)) {
    return false;
  }
  return weight.grouped() || (weight.format == WeightFormat::kBf16 && is_aligned(weight.data));
}

Way way_of(Context& context, const Product& product) {
  const bool is_grouped = product.finish == Finish::kStore && product.num_outputs >= kGrouped;
  if (product.rows <= (is_grouped ? kStreamRowsGrouped : kStreamRows)) return Way::kStream;
  if (!context.deterministic && multiply_large_serves(context, product)) return Way::kLarge;
  return product.rows <= kStreamRowsAlone ? Way::kStream : Way::kTiled;
}

// The product in two: what the tensor cores take and the rest.
struct Parts {
  Product tensor, plain;
  // Of the weights of `tensor` those that have to be written out as bf16; `tensor` has no data of
  // them yet.
  WeightView stored[LinearArgs::kMaxOutputs] = {};
};

// Values of a weight to write out.
std::int64_t num_values(const WeightView& stored) { return stored ? stored.rows * stored.cols : 0; }

Parts parts_of(const Context& context, const Product& product) {
  Parts parts{product, product};
  parts.tensor.num_outputs = parts.plain.num_outputs = 0;
  bool all = true;
  for (int i = 0; i < product.num_outputs; ++i) {
    all = all && is_tensor_weight(context, product, product.outputs[i].weight);
  }
  for (int i = 0; i < product.num_outputs; ++i) {
    const ProductOutput& output = product.outputs[i];
    // Gate and up stay together.
    const bool split = product.finish == Finish::kStore;
    const bool tensor = split ? is_tensor_weight(context, product, output.weight) : all;
    Product& part = tensor ? parts.tensor : parts.plain;
    const int at = part.num_outputs++;
    part.outputs[at] = output;
    if (!tensor || !output.weight.grouped()) continue;
    parts.stored[at] = output.weight;
    part.outputs[at].weight.data = nullptr;
    part.outputs[at].weight.format = WeightFormat::kBf16;
  }
  return parts;
}

}  // namespace

std::size_t multiply_scratch(Context& context, const Product& product) {
  const Parts parts = parts_of(context, product);
  std::size_t bytes = 0;
  for (const WeightView& stored : parts.stored) {
    bytes += Scratch::bytes_of<std::uint16_t>(num_values(stored));
  }
  if (parts.tensor.num_outputs > 0 && way_of(context, parts.tensor) == Way::kLarge) {
    bytes += multiply_large_scratch(parts.tensor);
  }
  return bytes;
}

void multiply(Context& context, const Product& product) {
  if (product.rows == 0) return;
  Parts parts = parts_of(context, product);
  if (parts.plain.num_outputs > 0) multiply_plain(context, parts.plain);
  Product& tensor = parts.tensor;
  if (tensor.num_outputs == 0) return;
  for (int i = 0; i < tensor.num_outputs; ++i) {
    const WeightView& stored = parts.stored[i];
    if (!stored) continue;
    auto* room = context.scratch.take<std::uint16_t>(num_values(stored));
    write_bf16(context, stored, room);
    tensor.outputs[i].weight.data = room;
  }
  switch (way_of(context, tensor)) {
    case Way::kStream:
      return multiply_stream(context, tensor);
    case Way::kTiled:
      return multiply_tiled(context, tensor);
    case Way::kLarge:
      return multiply_large(context, tensor);
  }
}

}  // namespace baltoro::cuda
