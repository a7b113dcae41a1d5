// The machine-readable form of a plan. A schema for readers that are not this program: keys are not
// renamed within a version.
#include <cmath>

#include "cli/plan_report.h"
#include "plan/inventory.h"

namespace baltoro::cli {
namespace {

using nlohmann::ordered_json;
using plan::Part;

constexpr const char* kFormula = "formula";  // of sizes alone: docs/cost-model.md

// JSON has no infinity: a knee that is never reached is null.
ordered_json leaf(double value, const char* unit, const std::string& provenance) {
  const ordered_json number = std::isfinite(value) ? ordered_json(value) : ordered_json(nullptr);
  return {{"value", number}, {"unit", unit}, {"provenance", provenance}};
}

ordered_json model_json(const plan::PlanModel& model) {
  ordered_json formats = ordered_json::object();
  for (const Part part : plan::kAllParts) {
    if (plan::part_parameters(model, part) == 0) continue;
    formats[plan::part_name(part)] = plan::format_name(plan::part_format(model.formats, part));
  }
  formats["cache"] = plan::format_name(model.formats.kv);
  formats["state"] = plan::format_name(model.formats.state);
  return {{"name", model.name},
          {"parameters", leaf(plan::total_parameters(model), "", kFormula)},
          {"active_parameters", leaf(plan::active_parameters(model), "", kFormula)},
          {"bytes", leaf(plan::total_bytes(model), "B", kFormula)},
          {"cache_bytes_per_token", leaf(plan::cache_bytes_per_token(model), "B", kFormula)},
          {"state_bytes_per_sequence", leaf(plan::state_bytes_per_sequence(model), "B", kFormula)},
          {"conv_bytes_per_sequence", leaf(plan::conv_bytes_per_sequence(model), "B", kFormula)},
          {"formats", formats},
          {"not_in_engine", model.not_in_engine}};
}

ordered_json hardware_json(const plan::Hardware& hardware) {
  ordered_json document = {{"name", hardware.name},
                           {"title", hardware.title},
                           {"scale_up_domain", hardware.scale_up_domain}};
  for (const plan::HardwareKey& key : plan::hardware_keys()) {
    const plan::Quantity& quantity = hardware.*key.field;
    if (!quantity) continue;
    document[key.name] =
        leaf(quantity.value, key.unit,
             std::string(plan::provenance_name(quantity.provenance)) + ": " + quantity.source);
  }
  return document;
}

// Which matrix units each part's products run on, and why.
ordered_json products_json(const plan::Scenario& scenario) {
  ordered_json document = ordered_json::object();
  for (const Part part : plan::kAllParts) {
    const bool has_products = part != Part::kEmbed && part != Part::kKdaState;
    if (!has_products || plan::part_parameters(scenario.model, part) == 0) continue;
    const plan::MmaPath path =
        plan::mma_path(scenario.hardware, plan::part_format(scenario.model.formats, part));
    document[plan::part_name(part)] = {{"path", path.name},
                                       {"peak", leaf(path.flops, "FLOP/s", "datasheet")},
                                       {"reason", path.reason}};
  }
  return document;
}

ordered_json capacity_json(const PlanResult& result) {
  const plan::Capacity& capacity = result.capacity;
  const plan::StageMemory& stage = capacity.fullest();
  ordered_json document = {
      {"fits", capacity.fits},
      {"usable_bytes", leaf(capacity.usable, "B", kFormula)},
      {"weight_bytes", leaf(stage.weights, "B", kFormula)},
      {"replicated_bytes", leaf(stage.replicated, "B", kFormula)},
      {"workspace_bytes", leaf(capacity.workspace, "B", kFormula)},
      {"free_bytes", leaf(capacity.free, "B", kFormula)},
      {"state_bytes_per_sequence", leaf(stage.state_per_sequence, "B", kFormula)},
      {"cache_bytes_per_token", leaf(stage.cache_per_token, "B", kFormula)},
      {"max_batch", leaf(static_cast<double>(capacity.max_batch), "sequences", kFormula)},
      {"max_context", leaf(static_cast<double>(capacity.max_context), "tokens", kFormula)}};
  if (result.fewest) {
    document["fewest_devices"] =
        leaf(static_cast<double>(result.fewest->devices), "devices", kFormula);
    document["fewest_devices_layout"] = plan::describe(result.fewest->layout);
  }
  return document;
}

ordered_json part_json(const plan::PartWork& work, const std::string& rates) {
  return {{"flops", leaf(work.flops, "FLOP", kFormula)},
          {"executed_flops", leaf(work.executed_flops, "FLOP", kFormula)},
          {"weight_bytes", leaf(work.weight_bytes, "B", kFormula)},
          {"activation_bytes", leaf(work.activation_bytes, "B", kFormula)},
          {"cache_bytes", leaf(work.cache_bytes, "B", kFormula)},
          {"network_bytes", leaf(work.network.bytes(), "B", kFormula)},
          {"network_bytes_outside", leaf(work.network.outside, "B", kFormula)},
          {"intensity", leaf(work.bytes() > 0 ? work.flops / work.bytes() : 0, "FLOP/B", kFormula)},
          {"rates", rates}};
}

ordered_json step_json(const plan::Step& step, const std::string& rates) {
  ordered_json components = ordered_json::object();
  for (const Part part : plan::kAllParts) {
    const plan::PartTime& time = step.time_of(part);
    ordered_json entry = part_json(step.work_of(part), rates);
    entry["seconds"] = leaf(time.seconds(), "s", rates);
    entry["network_seconds"] = leaf(time.network, "s", rates);
    entry["hidden_seconds"] = leaf(time.hidden, "s", rates);
    entry["bound"] = plan::bound_name(time.bound);
    components[plan::part_name(part)] = entry;
  }
  ordered_json total = part_json(step.total(), rates);
  total["seconds"] = leaf(step.seconds(), "s", rates);
  total["network_seconds"] = leaf(step.network_seconds(), "s", rates);
  return {{"components", components}, {"total", total}};
}

// A time with the range that the residuals of its rates give.
ordered_json time_leaf(double seconds, const plan::Efficiency& efficiency) {
  ordered_json entry = leaf(seconds, "s", plan::efficiency_name(efficiency.kind));
  entry["low"] = seconds * efficiency.residuals.first;
  entry["high"] = seconds * efficiency.residuals.second;
  return entry;
}

ordered_json totals_json(const plan::Totals& totals, const plan::Efficiency& efficiency) {
  const std::string rates = plan::efficiency_name(efficiency.kind);
  ordered_json document = {{"ttft", time_leaf(totals.ttft, efficiency)}};
  if (totals.tpot > 0) {  // prefill alone generates nothing
    document["tpot"] = time_leaf(totals.tpot, efficiency);
    document["request"] = time_leaf(totals.request, efficiency);
    document["tokens_per_second_per_user"] = leaf(totals.tokens_per_user, "1/s", rates);
  }
  document["tokens_per_second_per_device"] = leaf(totals.tokens_per_device, "1/s", rates);
  document["mfu"] = leaf(totals.flop_utilization, "", rates);
  document["mbu"] = leaf(totals.byte_utilization, "", rates);
  return document;
}

ordered_json moe_json(const plan::MoeLine& moe, const std::string& rates) {
  ordered_json document = {
      {"tokens", leaf(moe.tokens, "tokens", kFormula)},
      {"distinct_experts", leaf(moe.distinct, "experts", kFormula)},
      {"rows_per_expert", leaf(moe.rows_per_expert, "rows", kFormula)},
      {"knee_rows", leaf(moe.knee_rows, "rows", rates)},
      {"knee_rows_with_activations", leaf(moe.knee_rows_with_activations, "rows", rates)},
      {"knee_tokens", leaf(moe.knee_tokens, "tokens", rates)},
      {"rho_notes", leaf(moe.rho_notes, "", rates)},
      {"rho", leaf(moe.rho, "", rates)},
      {"layer_message_seconds", leaf(moe.messages, "s", rates)},
      {"layer_compute_seconds", leaf(moe.compute, "s", rates)},
      {"layer_memory_seconds", leaf(moe.memory, "s", rates)},
      {"load_skew", leaf(moe.skew, "", kFormula)}};
  if (moe.rho_full > 0) {  // of messages between expert ranks
    document["rho_full"] = leaf(moe.rho_full, "", rates);
    document["rho_layer"] = leaf(moe.rho_layer, "", rates);
  }
  return document;
}

ordered_json offload_json(const plan::Offload& offload) {
  return {{"hit_rate", leaf(offload.hit_rate, "", kFormula)},
          {"resident_expert_bytes", leaf(offload.resident_experts, "B", kFormula)},
          {"expert_bytes_per_token", leaf(offload.expert_bytes_per_token, "B", kFormula)},
          {"device_seconds", leaf(offload.device_seconds, "s", "datasheet")},
          {"dram_seconds", leaf(offload.dram_seconds, "s", "datasheet")},
          {"nvme_seconds", leaf(offload.nvme_seconds, "s", "datasheet")},
          {"tokens_per_second", leaf(1 / offload.seconds(), "1/s", "datasheet")},
          {"tokens_per_second_cold", leaf(1 / offload.cold_seconds, "1/s", "datasheet")},
          {"bound", offload.bound()}};
}

}  // namespace

ordered_json plan_json(const PlanResult& result) {
  const plan::Scenario& scenario = result.scenario;
  const std::string rates =
      result.offload ? "datasheet" : plan::efficiency_name(scenario.efficiency.kind);
  ordered_json document = {{"schema", kPlanSchema},
                           {"version", kPlanSchemaVersion},
                           {"result", result.offload ? "bound" : scenario.efficiency.result_name()},
                           {"rates", rates},
                           {"model", model_json(scenario.model)},
                           {"hardware", hardware_json(scenario.hardware)},
                           {"devices", scenario.layout.devices()},
                           {"layout", plan::describe(scenario.layout)},
                           {"workload",
                            {{"phase", plan::phase_name(scenario.workload.phase)},
                             {"batch", scenario.workload.batch},
                             {"context", scenario.workload.context},
                             {"prompt_tokens", scenario.workload.prompt_tokens()},
                             {"routing", scenario.workload.routing.source},
                             {"all_to_all", plan::dedup_name(scenario.workload.dedup)},
                             {"overlap", plan::overlap_name(scenario.workload.overlap)}}},
                           {"products", products_json(scenario)}};
  if (result.offload) {  // whose memory is all tiers, not that of devices
    document["offload"] = offload_json(*result.offload);
  } else {
    document["capacity"] = capacity_json(result);
  }
  if (result.totals) {
    document["step"] = step_json(result.totals->step, rates);
    document["totals"] = totals_json(*result.totals, scenario.efficiency);
  }
  if (result.moe) document["moe"] = moe_json(*result.moe, rates);
  ordered_json knees = ordered_json::object();
  for (const plan::Knee& knee : result.knees) {
    knees[knee.key] = leaf(knee.value, knee.unit.c_str(), knee.formula);
    knees[knee.key]["meaning"] = knee.meaning;
  }
  document["knees"] = knees;
  ordered_json list = ordered_json::array();
  for (const plan::Recommendation& rec : result.recommendations) {
    list.push_back({{"change", rec.change},
                    {"how", rec.how},
                    {"step_seconds", leaf(rec.seconds, "s", rates)},
                    {"max_batch", leaf(rec.batch, "sequences", kFormula)}});
  }
  document["recommendations"] = list;
  return document;
}

ordered_json explanation_json(const plan::Explanation& explanation) {
  ordered_json terms = ordered_json::array();
  for (const plan::ExplainedTerm& term : explanation.terms) {
    terms.push_back({{"name", term.name}, {"formula", term.formula}, {"numbers", term.numbers}});
  }
  return {{"component", plan::part_name(explanation.part)},
          {"what", explanation.what},
          {"terms", terms},
          {"source", explanation.source}};
}

}  // namespace baltoro::cli
