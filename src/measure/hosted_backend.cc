#include "measure/hosted_backend.h"

#include <algorithm>
#include <bit>
#include <functional>

#include "core/dtype.h"
#include "core/error.h"
#include "ops/embed.h"
#include "ops/glu_mlp.h"
#include "ops/head.h"
#include "ops/linear.h"
#include "ops/mix_norm.h"
#include "ops/route.h"

namespace baltoro {
namespace {

std::vector<std::uint16_t> to_bf16(const float* values, std::int64_t count) {
  std::vector<std::uint16_t> bits(static_cast<std::size_t>(count));
  std::transform(values, values + count, bits.begin(), f32_to_bf16);
  return bits;
}

}  // namespace

// Device memory of one op call.
class HostedBackend::Call {
 public:
  explicit Call(HostedBackend& owner) : device_(*owner.device_), pieces_(owner.pieces_) {}

  ConstTensorView in(const ConstTensorView& host) {
    if (!host) return {};
    return upload(host.f32(), host.shape);
  }
  // Copied there and back: an op may leave rows as they are.
  TensorView in_out(const TensorView& host) {
    const TensorView view = upload(host.f32(), host.shape);
    const std::int64_t count = host.shape.count();
    back_.push_back([this, view, to = host.f32(), count] {
      if (view.dtype == DType::kF32) {
        device_.copy(to, view.data, view.bytes());
        return;
      }
      std::vector<std::uint16_t> bits(static_cast<std::size_t>(count));
      device_.copy(bits.data(), view.data, view.bytes());
      std::transform(bits.begin(), bits.end(), to, bf16_to_f32);
    });
    return view;
  }
  template <typename T>
  const T* array(const T* host, std::int64_t count) {
    if (host == nullptr) return nullptr;
    return static_cast<const T*>(place(host, static_cast<std::size_t>(count) * sizeof(T)));
  }
  template <typename T>
  T* array_in_out(T* host, std::int64_t count) {
    if (host == nullptr) return nullptr;
    return static_cast<T*>(bytes_in_out(host, static_cast<std::size_t>(count) * sizeof(T)));
  }
  void* bytes_in_out(void* host, std::size_t bytes) {
    void* const there = place(host, bytes);
    back_.push_back([this, there, host, bytes] { device_.copy(host, there, bytes); });
    return there;
  }
  // The op has been called.
  void finish() {
    device_.synchronize();
    for (const auto& copy : back_) copy();
  }

 private:
  void* place(const void* host, std::size_t bytes) {
    if (next_ == pieces_.size()) pieces_.emplace_back();
    Buffer& piece = pieces_[next_++];
    if (piece.bytes() < bytes) piece = device_.allocate(std::bit_ceil(bytes), "a compared op");
    device_.copy(piece.data(), host, bytes);
    return piece.data();
  }
  TensorView upload(const float* host, const Shape& shape) {
    const DType dtype = device_.activation_dtype();
    const auto count = static_cast<std::size_t>(shape.count());
    if (dtype == DType::kF32) return {place(host, count * sizeof(float)), dtype, shape};
    const std::vector<std::uint16_t> bits = to_bf16(host, shape.count());
    return {place(bits.data(), count * sizeof(std::uint16_t)), dtype, shape};
  }

  Backend& device_;
  std::deque<Buffer>& pieces_;
  std::size_t next_ = 0;
  std::vector<std::function<void()>> back_;
};

const void* HostedBackend::placed(const void* host, std::size_t bytes) {
  if (host == nullptr) return nullptr;
  Buffer& copy = weights_[host];
  if (copy.bytes() < bytes) {
    copy = device_->allocate(bytes, "weights of a compared model");
    device_->copy(copy.data(), host, bytes);
  }
  return copy.data();
}

WeightView HostedBackend::weight(const WeightView& host) {
  WeightView view = host;
  view.data = placed(host.data, static_cast<std::size_t>(host.rows * host.row_bytes()));
  view.scales = static_cast<const std::uint8_t*>(
      placed(host.scales, static_cast<std::size_t>(host.rows * host.scale_cols())));
  return view;
}

void HostedBackend::embed(const EmbedArgs& args) {
  Call call(*this);
  EmbedArgs there = args;
  there.table = weight(args.table);
  there.out = call.in_out(args.out);
  device_->embed(there);
  call.finish();
}

void HostedBackend::linear(const LinearArgs& args) {
  Call call(*this);
  LinearArgs there = args;
  there.x = call.in(args.x);
  for (int i = 0; i < args.num_outputs; ++i) {
    LinearOutput& output = there.outputs[static_cast<std::size_t>(i)];
    output = {weight(output.weight), call.in_out(output.out)};
  }
  device_->linear(there);
  call.finish();
}

void HostedBackend::mix_norm(const MixNormArgs& args) {
  Call call(*this);
  MixNormArgs there = args;
  std::vector<ConstTensorView> bank;
  for (const ConstTensorView& source : args.bank) bank.push_back(call.in(source));
  const std::int64_t width = args.prefix.cols();
  there.bank = bank;
  there.prefix = call.in_out(args.prefix);
  there.delta = call.in(args.delta);
  there.res_norm = call.array(args.res_norm, width);
  there.res_proj = call.array(args.res_proj, width);
  there.norm = call.array(args.norm, width);
  there.out = call.in_out(args.out);
  there.first_bad = call.array_in_out(args.first_bad, args.prefix.rows());
  device_->mix_norm(there);
  call.finish();
}

void HostedBackend::kda_mix(const KdaMixArgs& args) {
  Call call(*this);
  const KdaShape& shape = args.shape;
  KdaMixArgs there = args;
  there.q = call.in(args.q);
  there.k = call.in(args.k);
  there.v = call.in(args.v);
  there.decay_logits = call.in(args.decay_logits);
  there.beta_logits = call.in(args.beta_logits);
  there.gate = call.in(args.gate);
  there.q_conv = call.array(args.q_conv, shape.key_channels() * shape.conv_width);
  there.k_conv = call.array(args.k_conv, shape.key_channels() * shape.conv_width);
  there.v_conv = call.array(args.v_conv, shape.value_channels() * shape.conv_width);
  there.a_log = call.array(args.a_log, shape.num_heads);
  there.dt_bias = call.array(args.dt_bias, shape.decay_channels());
  there.o_norm = call.array(args.o_norm, shape.head_dim_v);
  const std::int64_t slots = args.pool.num_slots;
  there.pool.state =
      call.bytes_in_out(args.pool.state, static_cast<std::size_t>(slots * shape.state_elements()) *
                                             dtype_bytes(args.pool.dtype));
  there.pool.conv = call.array_in_out(args.pool.conv, slots * shape.conv_elements());
  there.out = call.in_out(args.out);
  device_->kda_mix(there);
  call.finish();
}

void HostedBackend::run_mla(const MlaArgs& args, void (Backend::*op)(const MlaArgs&)) {
  Call call(*this);
  MlaArgs there = args;
  there.q = call.in(args.q);
  there.kv = call.in(args.kv);
  there.v = call.in(args.v);
  there.kv_norm = call.array(args.kv_norm, args.shape.kv_rank);
  if (args.kv_b) there.kv_b = weight(args.kv_b);
  there.gate = call.in(args.gate);
  const std::int64_t page_bytes = cache_page_bytes(args.shape, args.cache.dtype);
  there.cache.data = call.bytes_in_out(args.cache.data,
                                       static_cast<std::size_t>(args.cache.num_pages * page_bytes));
  there.out = call.in_out(args.out);
  (device_.get()->*op)(there);
  call.finish();
}

void HostedBackend::glu_mlp(const GluMlpArgs& args) {
  Call call(*this);
  GluMlpArgs there = args;
  there.x = call.in(args.x);
  there.gate = weight(args.gate);
  there.up = weight(args.up);
  there.down = weight(args.down);
  there.out = call.in_out(args.out);
  there.add = args.add.data == args.out.data ? ConstTensorView(there.out) : call.in(args.add);
  device_->glu_mlp(there);
  call.finish();
}

void HostedBackend::route(const RouteArgs& args) {
  Call call(*this);
  const std::int64_t chosen = args.x.rows() * args.top_k;
  RouteArgs there = args;
  there.x = call.in(args.x);
  there.weight = weight(args.weight);
  there.bias = call.array(args.bias, args.weight.rows);
  there.ids = call.array_in_out(args.ids, chosen);
  there.weights = call.array_in_out(args.weights, chosen);
  device_->route(there);
  call.finish();
}

void HostedBackend::expert_mlp(const ExpertMlpArgs& args) {
  BALTORO_CHECK(args.feed == nullptr, "experts that are not all in memory");
  Call call(*this);
  const std::int64_t chosen = args.z.rows() * args.top_k;
  // The others stay on the host.
  std::vector<ExpertWeights> experts(args.experts.size());
  for (std::int64_t i = 0; i < chosen; ++i) {
    const auto id = static_cast<std::size_t>(args.ids[i]);
    const ExpertWeights& host = args.experts[id];
    experts[id] = {weight(host.w1), weight(host.w3), weight(host.w2)};
  }
  ExpertMlpArgs there = args;
  there.z = call.in(args.z);
  there.ids = call.array(args.ids, chosen);
  there.weights = call.array(args.weights, chosen);
  there.experts = experts;
  there.table = nullptr;
  there.out = call.in_out(args.out);
  device_->expert_mlp(there);
  call.finish();
}

void HostedBackend::head(const HeadArgs& args) {
  Call call(*this);
  HeadArgs there = args;
  there.x = call.in(args.x);
  there.weight = weight(args.weight);
  device_->head(there);
  call.finish();
}

}  // namespace baltoro
