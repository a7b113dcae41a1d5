#include "engine/host_experts.h"

#include <string>
#include <utility>
#include <vector>

#include "core/error.h"
#include "core/narrow.h"
#include "ops/expert_mlp.h"
#include "ops/forwarding_backend.h"

namespace baltoro {
namespace {

class HostExperts final : public ForwardingBackend {
 public:
  HostExperts(std::unique_ptr<Backend> device, std::shared_ptr<Backend> host)
      : ForwardingBackend(*device),
        device_(std::move(device)),
        host_(std::move(host)),
        name_(fmt::format("{} + {} experts", device_->name(), host_->name())) {
    BALTORO_CHECK(host_->uses_host_memory(), "experts of {} on the host", host_->name());
    BALTORO_CHECK(device_->activations() == host_->activations(), "one type of activations");
  }

  std::string_view name() const override { return name_; }
  int num_threads() const override { return host_->num_threads(); }
  // The host finds its experts by their views.
  Buffer expert_table(std::span<const ExpertWeights> /*experts*/) override { return {}; }
  // What the host does is recorded with the ops of the device.
  void run_pass(const BatchView& batch, const std::function<void()>& ops) override {
    inner().run_pass(batch, ops);
  }

  void expert_mlp(const ExpertMlpArgs& args) override {
    const std::int64_t rows = args.z.rows(), values = args.z.shape.count();
    const auto choices = static_cast<std::size_t>(rows * args.top_k);
    reserve(args.z.bytes(), values, choices);
    device_->copy_in_order(z_.data(), args.z.data, args.z.bytes());
    device_->copy_in_order(ids_.data(), args.ids, choices * sizeof(std::int32_t));
    device_->copy_in_order(weights_.data(), args.weights, choices * sizeof(float));
    if (args.feed != nullptr) {
      // It reads files for the layer that is being called: the device waits for the host.
      device_->synchronize();
      compute(args);
    } else {
      device_->run_on_host([this, args] { compute(args); });
    }
    device_->copy_in_order(args.out.data, out_.data(), args.out.bytes());
  }

 private:
  // Shared memory for one call; ops come one after the other, so that one set serves all layers.
  void reserve(std::size_t bytes, std::int64_t values, std::size_t choices) {
    if (z_.bytes() >= bytes && ids_.bytes() >= choices * sizeof(std::int32_t)) return;
    device_->synchronize();
    z_ = device_->allocate_shared(bytes, "inputs of the host's experts");
    out_ = device_->allocate_shared(bytes, "outputs of the host's experts");
    ids_ = device_->allocate_shared(choices * sizeof(std::int32_t), "choices of experts");
    weights_ = device_->allocate_shared(choices * sizeof(float), "weights of experts");
    z_f32_.resize(static_cast<std::size_t>(values));
    out_f32_.resize(static_cast<std::size_t>(values));
  }

  // On a thread of the host, after the copies.
  void compute(const ExpertMlpArgs& args) {
    const std::int64_t values = args.z.shape.count();
    widen(z_.data(), args.z.dtype, z_f32_.data(), values);
    ExpertMlpArgs on_host = args;
    on_host.z = {z_f32_.data(), DType::kF32, args.z.shape};
    on_host.out = {out_f32_.data(), DType::kF32, args.out.shape};
    on_host.ids = static_cast<const std::int32_t*>(ids_.data());
    on_host.weights = weights_.f32();
    on_host.table = nullptr;
    host_->expert_mlp(on_host);
    narrow(out_f32_.data(), args.out.dtype, out_.data(), values);
  }

  std::unique_ptr<Backend> device_;
  std::shared_ptr<Backend> host_;
  std::string name_;
  Buffer z_, out_, ids_, weights_;
  std::vector<float> z_f32_, out_f32_;
};

}  // namespace

std::unique_ptr<Backend> make_host_experts(std::unique_ptr<Backend> device,
                                           std::shared_ptr<Backend> host) {
  return std::make_unique<HostExperts>(std::move(device), std::move(host));
}

}  // namespace baltoro
