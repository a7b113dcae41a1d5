#include "cpu/backend.h"

#include <cstring>

#include "core/parallel.h"
#include "cpu/context.h"
#include "cpu/dispatch.h"

namespace baltoro {
namespace {

class CpuBackend final : public Backend {
 public:
  CpuBackend(const cpu::LeafTable& leaf, Activations activations, int num_threads)
      : name_(std::string("cpu/") + leaf.name),
        activations_(activations),
        pool_(num_threads),
        scratch_(num_threads),
        context_{leaf, pool_, scratch_, activations == Activations::kBf16} {}

  std::string_view name() const override { return name_; }
  int num_threads() const override { return pool_.size(); }
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
    if (bytes != 0) std::memmove(to, from, bytes);
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
  Activations activations_;
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
