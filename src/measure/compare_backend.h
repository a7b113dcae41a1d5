// Two backends on the same inputs of every op: the run goes on with the first one's outputs, so
// that a difference belongs to the op where it is seen, not to one before it.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "ops/batch.h"
#include "ops/forwarding_backend.h"
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
class CompareBackend final : public ForwardingBackend {
 public:
  // Both must outlive this.
  CompareBackend(Backend& first, Backend& second);

  // One entry an op, layer and output, the worst of its calls, in order of first call.
  const std::vector<OpDifference>& differences() const noexcept { return differences_; }
  const RouteFlips& route_flips() const noexcept { return flips_; }

  std::string_view name() const override { return name_; }
  void synchronize() override;

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

  Backend& second_;
  std::string name_;
  std::vector<OpDifference> differences_;
  RouteFlips flips_;
};

}  // namespace baltoro
