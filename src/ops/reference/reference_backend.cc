#include "ops/reference/reference_backend.h"

#include <cstring>

#include "ops/reference/glu_mlp.h"
#include "ops/reference/kda.h"
#include "ops/reference/latent_moe.h"
#include "ops/reference/linear.h"
#include "ops/reference/mix_norm.h"
#include "ops/reference/mla.h"

namespace baltoro {
namespace {

class ReferenceBackend final : public Backend {
 public:
  explicit ReferenceBackend(Activations activations)
      : activations_(activations), round_(activations) {}

  std::string_view name() const override { return "reference"; }
  int num_threads() const override { return 1; }
  Activations activations() const override { return activations_; }
  DType activation_dtype() const override { return DType::kF32; }
  DType cache_dtype() const override {
    return activations_ == Activations::kBf16 ? DType::kBf16 : DType::kF32;
  }

  bool uses_host_memory() const override { return true; }
  Buffer allocate(std::size_t bytes, const char* purpose) override {
    return Buffer(bytes, purpose);
  }
  Buffer allocate_shared(std::size_t bytes, const char* purpose) override {
    return Buffer(bytes, purpose);
  }
  void copy(void* to, const void* from, std::size_t bytes) override {
    if (bytes > 0) std::memcpy(to, from, bytes);
  }
  void copy_in_order(void* to, const void* from, std::size_t bytes) override {
    copy(to, from, bytes);
  }
  void run_on_host(std::function<void()> work) override { work(); }
  void clear(void* data, std::size_t bytes) override {
    if (bytes != 0) std::memset(data, 0, bytes);
  }
  void synchronize() override {}
  std::optional<std::uint64_t> free_memory() const override { return std::nullopt; }
  Buffer expert_table(std::span<const ExpertWeights> /*experts*/) override { return {}; }
  void run_pass(const BatchView& /*batch*/, const std::function<void()>& ops) override { ops(); }

  void embed(const EmbedArgs& args) override { reference::embed(args, round_); }
  void linear(const LinearArgs& args) override { reference::linear(args, round_); }
  void mix_norm(const MixNormArgs& args) override { reference::mix_norm(args, round_); }
  void kda_mix(const KdaMixArgs& args) override { reference::kda_mix(args, round_); }
  void mla_prefill(const MlaArgs& args) override { reference::mla(args, Origin::kPrompt, round_); }
  void mla_decode(const MlaArgs& args) override {
    reference::mla(args, Origin::kGenerated, round_);
  }
  void glu_mlp(const GluMlpArgs& args) override { reference::glu_mlp(args, round_); }
  void route(const RouteArgs& args) override { reference::route(args); }
  void expert_mlp(const ExpertMlpArgs& args) override { reference::expert_mlp(args, round_); }
  void head(const HeadArgs& args) override { reference::head(args); }

 private:
  Activations activations_;
  reference::Rounding round_;
};

}  // namespace

std::unique_ptr<Backend> make_reference_backend(Activations activations) {
  return std::make_unique<ReferenceBackend>(activations);
}

}  // namespace baltoro
