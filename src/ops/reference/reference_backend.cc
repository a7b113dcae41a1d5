#include "ops/reference/reference_backend.h"

#include "ops/host_backend.h"
#include "ops/reference/glu_mlp.h"
#include "ops/reference/kda.h"
#include "ops/reference/latent_moe.h"
#include "ops/reference/linear.h"
#include "ops/reference/mix_norm.h"
#include "ops/reference/mla.h"

namespace baltoro {
namespace {

class ReferenceBackend final : public HostBackend {
 public:
  explicit ReferenceBackend(Activations activations)
      : HostBackend(activations), round_(activations) {}

  std::string_view name() const override { return "reference"; }
  int num_threads() const override { return 1; }

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
  reference::Rounding round_;
};

}  // namespace

std::unique_ptr<Backend> make_reference_backend(Activations activations) {
  return std::make_unique<ReferenceBackend>(activations);
}

}  // namespace baltoro
