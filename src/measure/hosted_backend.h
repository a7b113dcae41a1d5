// A device's ops on memory of the host: what an op reads is copied to the device before it, what it
// writes is copied back behind it. Slow, and for comparing a device with the host op by op.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "ops/expert_mlp.h"
#include "ops/host_backend.h"
#include "ops/kda.h"
#include "ops/mla.h"

namespace baltoro {

// As backends of the host do, it takes activations as f32, of bf16 values where the device's are bf16.
// Weights are copied once, by their address: they must stay there and as they are.
class HostedBackend final : public HostBackend {
 public:
  explicit HostedBackend(std::unique_ptr<Backend> device)
      : HostBackend(device->activations()), device_(std::move(device)) {}

  std::string_view name() const override { return device_->name(); }
  int num_threads() const override { return device_->num_threads(); }
  DType cache_dtype() const override { return device_->cache_dtype(); }
  void synchronize() override { device_->synchronize(); }

  void embed(const EmbedArgs& args) override;
  void linear(const LinearArgs& args) override;
  void mix_norm(const MixNormArgs& args) override;
  void kda_mix(const KdaMixArgs& args) override;
  void mla_prefill(const MlaArgs& args) override { run_mla(args, &Backend::mla_prefill); }
  void mla_decode(const MlaArgs& args) override { run_mla(args, &Backend::mla_decode); }
  void glu_mlp(const GluMlpArgs& args) override;
  void route(const RouteArgs& args) override;
  void expert_mlp(const ExpertMlpArgs& args) override;
  void head(const HeadArgs& args) override;

 private:
  class Call;
  void run_mla(const MlaArgs& args, void (Backend::*op)(const MlaArgs&));
  WeightView weight(const WeightView& host);
  const void* placed(const void* host, std::size_t bytes);

  std::unique_ptr<Backend> device_;
  std::map<const void*, Buffer> weights_;
  std::deque<Buffer> pieces_;  // of the running call, reused by the next
};

}  // namespace baltoro
