#include "cpu/backend.h"

#include "core/parallel.h"
#include "cpu/context.h"
#include "cpu/dispatch.h"
#include "ops/host_backend.h"

namespace baltoro {
namespace {

class CpuBackend final : public HostBackend {
 public:
  CpuBackend(const cpu::LeafTable& leaf, Activations activations, int num_threads)
      : HostBackend(activations),
        name_(std::string("cpu/") + leaf.name),
        pool_(num_threads),
        scratch_(num_threads),
        context_{leaf, pool_, scratch_, activations == Activations::kBf16} {}

  std::string_view name() const override { return name_; }
  int num_threads() const override { return pool_.size(); }

  void embed(const EmbedArgs& args) override { cpu::embed(context_, args); }
  void linear(const LinearArgs& args) override { cpu::linear(context_, args); }
  void mix_norm(const MixNormArgs& args) override { cpu::mix_norm(context_, args); }
  void kda_mix(const KdaMixArgs& args) override { cpu::kda_mix(context_, args); }
  void mla_prefill(const MlaArgs& args) override { cpu::mla_prefill(context_, args); }
  void mla_decode(const MlaArgs& args) override { cpu::mla_decode(context_, args); }
  void glu_mlp(const GluMlpArgs& args) override { cpu::glu_mlp(context_, args); }
  void route(const RouteArgs& args) override { cpu::route(context_, args); }
  void expert_mlp(const ExpertMlpArgs& args) override { cpu::expert_mlp(context_, args); }
  void head(const HeadArgs& args) override { cpu::head(context_, args); }

 private:
  std::string name_;
  ThreadPool pool_;
  cpu::Scratch scratch_;
  cpu::Context context_;
};

}  // namespace

std::vector<std::string> supported_isas() {
  std::vector<std::string> names;
  for (const cpu::LeafTable* table : cpu::supported_tables()) names.emplace_back(table->name);
  return names;
}

std::unique_ptr<Backend> make_cpu_backend(const CpuOptions& options) {
  const int threads = options.num_threads != 0 ? options.num_threads : default_thread_count();
  return std::make_unique<CpuBackend>(cpu::pick_table(options.isa), options.activations, threads);
}

}  // namespace baltoro
