// How a model is spread over devices.
//
// tp x dp devices form a stage, pp stages the deployment. Inside a stage:
//   mixers   split by heads over tp ranks (attn=tp), or whole on every rank with the sequences split
//            over all tp x dp (attn=dp); dp groups have their own sequences either way
//   experts  ep = 1: every dp group has all, each cut tp ways; ep > 1: spread over ep ranks of the
//            stage, each cut (tp dp) / ep ways
//   dcp      the cache of a sequence is spread over dcp of the tp ranks
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "plan/model.h"

namespace baltoro::plan {

struct Layout {
  std::int64_t tp = 1;
  std::int64_t ep = 1;
  std::int64_t dp = 1;
  std::int64_t pp = 1;
  std::int64_t dcp = 1;
  bool sequence_parallel = false;  // rows between the mixers and FFNs split over tp ranks
  bool attention_dp = false;
  // Whole on every tp rank: the latent projections; q_a, kv_a, f_a, beta and the router.
  bool replicate_latent = true;
  bool replicate_small = false;
  std::int64_t redundant_experts = 0;  // further copies of hot experts, over all ep ranks
  bool experts_on_host = false;        // routed experts in DRAM and on NVMe, computed there

  std::int64_t stage_devices() const { return tp * dp; }
  std::int64_t devices() const { return tp * dp * pp; }
  // Ranks that share one mixer, and groups that have sequences of their own.
  std::int64_t attention_tp() const { return attention_dp ? 1 : tp; }
  std::int64_t attention_groups() const { return stage_devices() / attention_tp(); }
  // Parts that one expert is cut into.
  std::int64_t expert_tp() const { return ep > 1 ? stage_devices() / ep : tp; }
  // Whether ranks of the expert domain hold different tokens, which the all-to-all then moves.
  bool has_all_to_all() const {
    return ep > 1 && (attention_groups() > 1 || (tp > 1 && sequence_parallel));
  }

  bool operator==(const Layout&) const = default;
};

// "tp=8,ep=8,sp=on,attn=dp,replicate=none,redundant=32,experts=host". Throws Error{kUsage} for an
// unknown key or value, with the nearest one.
Layout parse_layout(std::string_view text);
// In the same form; what equals the default is left out.
std::string describe(const Layout& layout);

// Throws Error{kUsage} naming each broken rule and the nearest valid value: heads that tp does not
// divide, ep that divides neither, dcp beyond tp, more stages than layers.
void check_layout(const Layout& layout, const PlanModel& model);

// First layer of each pipeline stage and, last, the number of layers: as even as can be, the longer
// stages first.
std::vector<std::int64_t> stage_begins(std::int64_t num_layers, std::int64_t stages);

}  // namespace baltoro::plan
