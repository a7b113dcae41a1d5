#include "plan/moe_line.h"

#include <algorithm>

#include "core/error.h"
#include "plan/arithmetic.h"
#include "plan/inventory.h"
#include "plan/knee_formulas.h"

namespace baltoro::plan {
namespace {

double rate(const Scenario& scenario, Part part) {
  return mma_path(scenario.hardware, part_format(scenario.model.formats, part)).flops;
}

double both_ways(const Scenario& scenario) {
  return format_bytes(scenario.model.formats.dispatch) +
         format_bytes(scenario.model.formats.combine);
}

// Seconds a token of the layer's products that messages can hide behind, routed ones alone or all.
double product_seconds(const Scenario& scenario, bool all) {
  const PlanModel& model = scenario.model;
  const double routed = 2 * real(model.config.moe.experts_per_token) * expert_parameters(model) /
                        rate(scenario, Part::kRouted);
  if (!all) return routed;
  const double d = real(model.config.hidden_size);
  return routed + 6 * d * real(model.config.moe.shared_ffn_size()) / rate(scenario, Part::kShared) +
         4 * d * real(model.config.moe.latent_size) / rate(scenario, Part::kLatent);
}

}  // namespace

double full_ratio(const Scenario& scenario, std::int64_t ranks) {
  const PlanModel& model = scenario.model;
  AllToAll message;
  message.num_experts = model.config.moe.num_experts;
  message.per_token = model.config.moe.experts_per_token;
  message.tokens_per_rank = 1;
  message.row_bytes = real(model.expert_width()) * both_ways(scenario);
  const Group group = {ranks, scenario.hardware.scale_up_domain};
  Traffic traffic = all_to_all(group, message, scenario.workload.dedup);
  traffic.calls_inside = traffic.calls_outside = 0;
  return traffic_seconds(traffic, link_rates(scenario.hardware, datasheet_efficiency()),
                         scenario.hardware) /
         product_seconds(scenario, false);
}

MoeLine compute_moe_line(const Scenario& scenario, const Step& step) {
  const PlanModel& model = scenario.model;
  const MoeConfig& moe = model.config.moe;
  if (model.num_moe() == 0) fail(ErrorCode::kUsage, "{}: no routed experts", model.name);
  const Hardware& hardware = scenario.hardware;
  const PartWork& routed = step.work_of(Part::kRouted);
  const double layers = real(model.num_moe());
  MoeLine line;
  const double each = 2 * expert_parameters(model);
  const double cuts =
      real(scenario.layout.ep > 1 ? scenario.layout.stage_devices() : scenario.layout.tp);
  const double halves = step.halved ? 2 : 1;  // that are routed one after the other
  const double rows = routed.flops * cuts / layers / each / halves;
  line.tokens = rows / real(moe.experts_per_token);
  line.rows_per_expert = rows / real(moe.num_experts);
  line.rows_per_touched = routed.rows;
  line.distinct = routed.rows > 0 ? rows / routed.rows : 0;
  const double flops = rate(scenario, Part::kRouted);
  const double weight = format_bytes(model.formats.routed);
  const double bandwidth = hardware.memory_bandwidth.value;
  line.knee_rows = expert_knee(weight, flops, bandwidth);
  line.knee_rows_with_activations = expert_knee_with_rows(
      line.knee_rows, flops / bandwidth,
      2 * real(model.expert_width()) * format_bytes(model.formats.activation), each);
  line.knee_tokens = line.knee_rows * real(moe.num_experts) / real(moe.experts_per_token);

  const LinkRates links = link_rates(hardware, datasheet_efficiency());
  const bool inside = scenario.layout.ep <= hardware.scale_up_domain && links.inside > 0;
  line.bandwidth = inside ? links.inside : links.outside;
  line.bytes_both_ways = both_ways(scenario);
  if (line.bandwidth > 0) {
    const double inner = real(moe.expert_ffn_size);
    line.rho_notes = comm_over_compute(flops, 2, model.expert_matrices, inner, line.bandwidth);
    line.rho = comm_over_compute(flops, line.bytes_both_ways, model.expert_matrices, inner,
                                 line.bandwidth);
  }
  if (scenario.layout.has_all_to_all()) {
    line.rho_full = full_ratio(scenario, scenario.layout.ep);
    line.rho_layer =
        line.rho_full * product_seconds(scenario, false) / product_seconds(scenario, true);
  }
  const PartTime& time = step.time_of(Part::kRouted);
  // Of a whole step, both halves.
  line.messages = time.network / layers;
  line.compute = time.compute / layers;
  line.memory = time.memory / layers;
  line.hidden = time.hidden / layers;
  line.skew = routed.load_skew;
  return line;
}

}  // namespace baltoro::plan
