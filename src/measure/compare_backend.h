// Two backends on the same inputs of every op: the run goes on with the first one's outputs, so
// that a difference belongs to the op where it is seen, not to one before it.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "core/buffer.h"
#include "ops/backend.h"
#include "ops/batch.h"
#include "ops/parity/compare.h"

namespace baltoro {

// The outputs of one call of an op on both backends.
struct OpDifference {
  std::string op;
  int layer = -1;
  std::string output;
  Agreement seen;
  Tolerance limit{};

  // How far the error goes beyond the tolerance; above 1 it exceeds it.
  double excess() const;
};

struct RouteFlips {
  std::int64_t rows = 0;     // rows that were routed
  std::int64_t flipped = 0;  // rows with other experts
  std::int64_t ties = 0;     // of them, those whose scores are equal to the op's tolerance
};

// Host backends that store activations as f32. State and cache that an op updates in place are
// copied for the second backend, converted where it stores them in another dtype.
class CompareBackend final : public Backend {
 public:
  // Both must outlive this.
  CompareBackend(Backend& first, Backend& second);

  // One entry an op, layer and output, the worst of its calls, in order of first call.
  const std::vector<OpDifference>& differences() const noexcept { return differences_; }
  const RouteFlips& route_flips() const noexcept { return flips_; }

  std::string_view name() const override { return name_; }
  int num_threads() const override { return first_.num_threads(); }
  Activations activations() const override { return first_.activations(); }
  DType activation_dtype() const override { return first_.activation_dtype(); }
  DType cache_dtype() const override { return first_.cache_dtype(); }
  bool uses_host_memory() const override { return first_.uses_host_memory(); }
  Buffer allocate(std::size_t bytes, const char* purpose) override {
    return first_.allocate(bytes, purpose);
  }
  Buffer allocate_shared(std::size_t bytes, const char* purpose) override {
    return first_.allocate_shared(bytes, purpose);
  }
  void copy(void* to, const void* from, std::size_t bytes) override {
    first_.copy(to, from, bytes);
  }
  void synchronize() override;
  void copy_in_order(void* to, const void* from, std::size_t bytes) override {
    first_.copy_in_order(to, from, bytes);
  }
  void run_on_host(std::function<void()> work) override { first_.run_on_host(std::move(work)); }
  void clear(void* data, std::size_t bytes) override { first_.clear(data, bytes); }
  std::optional<std::uint64_t> free_memory() const override { return first_.free_memory(); }
  Buffer expert_table(std::span<const ExpertWeights> experts) override {
    return first_.expert_table(experts);
  }
  void run_pass(const BatchView& /*batch*/, const std::function<void()>& ops) override { ops(); }

  void embed(const EmbedArgs& args) override;
  void linear(const LinearArgs& args) override;
  void mix_norm(const MixNormArgs& args) override;
  void kda_mix(const KdaMixArgs& args) override;
  void mla_prefill(const MlaArgs& args) override;
  void mla_decode(const MlaArgs& args) override;
  void glu_mlp(const GluMlpArgs& args) override;
  void route(const RouteArgs& args) override;
  void expert_mlp(const ExpertMlpArgs& args) override;
  void head(const HeadArgs& args) override;

 private:
  using MlaOp = void (Backend::*)(const MlaArgs&);

  void run_mla(const MlaArgs& args, MlaOp op, const char* name);
  void compare_routes(const RouteArgs& args, const std::vector<std::int32_t>& ids,
                      const std::vector<float>& weights);
  // Records the difference of an output that both have written.
  void record(const char* op, int layer, const char* output, const std::vector<float>& first,
              const std::vector<float>& second);
  void add(OpDifference difference);
  Tolerance limit(const char* op) const;

  Backend& first_;
  Backend& second_;
  std::string name_;
  std::vector<OpDifference> differences_;
  RouteFlips flips_;
};

}  // namespace baltoro
