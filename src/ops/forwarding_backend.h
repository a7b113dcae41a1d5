// A backend that hands every call to another one: what changes or watches some calls derives from it.
#pragma once

#include <utility>

#include "ops/backend.h"

namespace baltoro {

class ForwardingBackend : public Backend {
 public:
  // `inner` must outlive this.
  explicit ForwardingBackend(Backend& inner) : inner_(inner) {}

  std::string_view name() const override { return inner_.name(); }
  int num_threads() const override { return inner_.num_threads(); }
  Activations activations() const override { return inner_.activations(); }
  DType activation_dtype() const override { return inner_.activation_dtype(); }
  DType cache_dtype() const override { return inner_.cache_dtype(); }

  bool uses_host_memory() const override { return inner_.uses_host_memory(); }
  Buffer allocate(std::size_t bytes, const char* purpose) override {
    return inner_.allocate(bytes, purpose);
  }
  Buffer allocate_shared(std::size_t bytes, const char* purpose) override {
    return inner_.allocate_shared(bytes, purpose);
  }
  void copy(void* to, const void* from, std::size_t bytes) override {
    inner_.copy(to, from, bytes);
  }
  void copy_in_order(void* to, const void* from, std::size_t bytes) override {
    inner_.copy_in_order(to, from, bytes);
  }
  void run_on_host(std::function<void()> work) override { inner_.run_on_host(std::move(work)); }
  void clear(void* data, std::size_t bytes) override { inner_.clear(data, bytes); }
  void synchronize() override { inner_.synchronize(); }
  std::optional<std::uint64_t> free_memory() const override { return inner_.free_memory(); }
  Buffer expert_table(std::span<const ExpertWeights> experts) override {
    return inner_.expert_table(experts);
  }
  // Calls the ops each time: a record that the inner backend repeats would pass this one by.
  void run_pass(const BatchView& /*batch*/, const std::function<void()>& ops) override { ops(); }

  void embed(const EmbedArgs& args) override { inner_.embed(args); }
  void linear(const LinearArgs& args) override { inner_.linear(args); }
  void mix_norm(const MixNormArgs& args) override { inner_.mix_norm(args); }
  void kda_mix(const KdaMixArgs& args) override { inner_.kda_mix(args); }
  void mla_prefill(const MlaArgs& args) override { inner_.mla_prefill(args); }
  void mla_decode(const MlaArgs& args) override { inner_.mla_decode(args); }
  void glu_mlp(const GluMlpArgs& args) override { inner_.glu_mlp(args); }
  void route(const RouteArgs& args) override { inner_.route(args); }
  void expert_mlp(const ExpertMlpArgs& args) override { inner_.expert_mlp(args); }
  void head(const HeadArgs& args) override { inner_.head(args); }
  void head_draw(const HeadDrawArgs& args) override { inner_.head_draw(args); }
  void fetch_logits(std::size_t index, std::span<float> to) override {
    inner_.fetch_logits(index, to);
  }

 protected:
  Backend& inner() noexcept { return inner_; }
  const Backend& inner() const noexcept { return inner_; }

 private:
  Backend& inner_;
};

}  // namespace baltoro
