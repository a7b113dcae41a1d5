#include "plan/recommend.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "plan/capacity.h"

namespace baltoro::plan {
namespace {

bool is_split(const Scenario& s) { return s.layout.tp > 1 && !s.layout.attention_dp; }

constexpr const char* kLayout = "--layout";  // the changed one follows

// A rule: where it applies, and what it does.
struct Rule {
  const char* change;
  const char* how;
  bool (*applies)(const Scenario& scenario);
  void (*change_it)(Scenario& scenario);
};

constexpr std::array<Rule, 11> kRules = {{
    {"latent projections split over tp ranks", kLayout,
     [](const Scenario& s) {
       return s.layout.tp > 1 && s.layout.replicate_latent && s.model.config.moe.latent_size > 0;
     },
     [](Scenario& s) { s.layout.replicate_latent = s.layout.replicate_small = false; }},
    {"KDA state in BF16", "--dtype state=bf16",
     [](const Scenario& s) {
       return s.model.num_kda() > 0 && s.model.formats.state == Format::kF32;
     },
     [](Scenario& s) { s.model.formats.state = Format::kBf16; }},
    {"cache in FP8", "--dtype kv=fp8",
     [](const Scenario& s) {
       return s.model.num_attn() > 0 && s.model.formats.kv == Format::kBf16;
     },
     [](Scenario& s) { s.model.formats.kv = Format::kFp8; }},
    {"cache spread over the tp ranks", kLayout,
     [](const Scenario& s) {
       return is_split(s) && s.model.num_attn() > 0 && s.layout.dcp < s.layout.tp;
     },
     [](Scenario& s) { s.layout.dcp = s.layout.tp; }},
    {"BF16 weights in int8 (MXINT8)", "--dtype weights=mxint8",
     [](const Scenario& s) { return s.model.formats.attn == Format::kBf16; },
     [](Scenario& s) { apply_formats(s.model.formats, "weights=mxint8"); }},
    {"rows between mixers and FFNs split over tp ranks", kLayout,
     [](const Scenario& s) {
       return is_split(s) && !s.layout.sequence_parallel && s.layout.ep == 1;
     },
     [](Scenario& s) { s.layout.sequence_parallel = true; }},
    {"attention by sequences, experts by ranks", kLayout,
     [](const Scenario& s) {
       return is_split(s) && s.model.num_moe() > 0 && s.layout.ep == 1 && s.layout.dcp == 1 &&
              s.layout.tp <= s.model.config.moe.num_experts;
     },
     [](Scenario& s) {
       s.layout.attention_dp = true;
       s.layout.ep = s.layout.stage_devices();
     }},
    {"one copy of a token a rank", "--a2a rank",
     [](const Scenario& s) {
       return s.layout.has_all_to_all() && s.workload.dedup == Dedup::kFlat;
     },
     [](Scenario& s) { s.workload.dedup = Dedup::kRank; }},
    {"one copy of a token a node", "--a2a node",
     [](const Scenario& s) {
       return s.layout.has_all_to_all() && s.workload.dedup != Dedup::kNode &&
              s.layout.ep > s.hardware.scale_up_domain;
     },
     [](Scenario& s) { s.workload.dedup = Dedup::kNode; }},
    {"messages fused with the routed products", "--overlap fused",
     [](const Scenario& s) {
       return s.layout.has_all_to_all() && s.workload.overlap.kind == Overlap::Kind::kNone;
     },
     [](Scenario& s) { s.workload.overlap.kind = Overlap::Kind::kFused; }},
    {"two batches in turn", "--overlap tbo",
     [](const Scenario& s) {
       return s.layout.tp > 1 && s.workload.overlap.kind == Overlap::Kind::kNone;
     },
     [](Scenario& s) { s.workload.overlap.kind = Overlap::Kind::kTwoBatch; }},
}};

}  // namespace

std::vector<Recommendation> recommend(const Scenario& scenario) {
  const StepShape shape = table_step(scenario.workload);
  const double before = compute_step(scenario, shape).seconds();
  const auto batch = [](const Scenario& s) {
    return static_cast<double>(compute_capacity(s).max_batch);
  };
  const double batch_before = batch(scenario);
  std::vector<Recommendation> found;
  for (const Rule& rule : kRules) {
    if (!rule.applies(scenario)) continue;
    Scenario changed = scenario;
    rule.change_it(changed);
    Recommendation result{rule.change, rule.how, compute_step(changed, shape).seconds() - before,
                          before, batch(changed) - batch_before};
    if (result.how == kLayout) result.how = fmt::format("{} {}", kLayout, describe(changed.layout));
    const bool faster = result.seconds < -0.01 * before;
    const bool larger = result.batch > 0.05 * batch_before && result.seconds < 0.01 * before;
    if (faster || larger) found.push_back(std::move(result));
  }
  std::stable_sort(
      found.begin(), found.end(),
      [](const Recommendation& a, const Recommendation& b) { return a.seconds < b.seconds; });
  return found;
}

}  // namespace baltoro::plan
