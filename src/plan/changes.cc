// What differs between two scenarios, in words that --set, --dtype, --hw and --layout take.
#include <fmt/format.h>

#include "plan/compare.h"

namespace baltoro::plan {
namespace {

struct Named {
  std::string name;
  std::string value;
};

std::string gate_name(OutputGate gate) {
  switch (gate) {
    case OutputGate::kNone:
      return "none";
    case OutputGate::kLowRank:
      return "low rank";
    case OutputGate::kFull:
      return "full rank";
  }
  return {};
}

std::string cache_form(MlaKind kind) {
  switch (kind) {
    case MlaKind::kLatent:
      return "mla";
    case MlaKind::kMqa:
      return "mqa";
    case MlaKind::kGqa:
      return "gqa";
  }
  return {};
}

std::vector<Named> sizes_of(const PlanModel& model) {
  const ModelConfig& c = model.config;
  const bool kda = model.num_kda() > 0;
  const bool attention = model.num_attn() > 0;
  const bool moe = model.num_moe() > 0;
  std::vector<Named> sizes;
  const auto add = [&](const char* name, std::int64_t value, bool has) {
    sizes.push_back({name, has ? std::to_string(value) : "-"});
  };
  add("L layers", c.num_layers, true);
  add("of them KDA", model.num_kda(), true);
  add("of them attention", model.num_attn(), true);
  add("of them dense FFN", model.num_dense(), true);
  add("d", c.hidden_size, true);
  add("V", c.vocab_size, true);
  add("H of KDA", c.kda.num_heads, kda);
  add("H of attention", c.mla.num_heads, attention);
  sizes.push_back({"cache form", attention ? cache_form(c.mla.kind) : "-"});
  add("G", c.mla.num_kv_heads, attention && c.mla.kind == MlaKind::kGqa);
  add("c", c.mla.kv_lora_rank, attention);
  add("s", c.mla.qk_rope_dim, attention);
  add("d_n", c.mla.qk_nope_dim, attention);
  add("d_v", c.mla.v_head_dim, attention);
  add("r_q", c.mla.q_lora_rank, attention);
  sizes.push_back({"KDA output gate", kda ? gate_name(c.kda.output_gate) : "-"});
  sizes.push_back({"attention output gate", attention ? gate_name(c.mla.output_gate) : "-"});
  add("N", c.moe.num_experts, moe);
  add("K", c.moe.experts_per_token, moe);
  add("l", model.expert_width(), moe);
  add("m", c.moe.expert_ffn_size, moe);
  add("n_s", c.moe.num_shared_experts, moe);
  add("expert_matrices", model.expert_matrices, moe);
  add("ff", c.intermediate_size, model.num_dense() > 0);
  add("R", c.attn_res_sublayers / 2, c.has_attn_res());
  return sizes;
}

std::vector<Named> formats_of(const PlanModel& model) {
  const Formats& f = model.formats;
  std::vector<Named> formats;
  const auto add = [&](const char* name, Format format, bool has) {
    formats.push_back({name, has ? format_name(format) : "-"});
  };
  const bool moe = model.num_moe() > 0;
  add("routed format", f.routed, moe);
  add("attn format", f.attn, true);
  add("shared format", f.shared, moe && model.config.moe.num_shared_experts > 0);
  add("dense format", f.dense, model.num_dense() > 0);
  add("latent format", f.latent, moe && model.config.moe.latent_size > 0);
  add("router format", f.router, moe);
  add("embed format", f.embed, true);
  add("head format", f.head, true);
  add("kv format", f.kv, model.num_attn() > 0);
  add("state format", f.state, model.num_kda() > 0);
  add("conv format", f.conv, model.num_kda() > 0);
  add("activation format", f.activation, true);
  add("dispatch format", f.dispatch, moe);
  add("combine format", f.combine, moe);
  return formats;
}

std::vector<Named> deployment_of(const Scenario& scenario) {
  const Workload& w = scenario.workload;
  std::vector<Named> result = {{"machine", scenario.hardware.title}};
  for (const HardwareKey& key : hardware_keys()) {
    result.push_back(
        {key.name, fmt::format("{:g} {}", (scenario.hardware.*key.field).value, key.unit)});
  }
  result.push_back({"devices", std::to_string(scenario.layout.devices())});
  result.push_back({"layout", describe(scenario.layout)});
  result.push_back({"rates", efficiency_name(scenario.efficiency.kind)});
  result.push_back({"phase", phase_name(w.phase)});
  result.push_back({"batch", std::to_string(w.batch)});
  result.push_back({"ctx", std::to_string(w.context)});
  result.push_back({"prompt", std::to_string(w.prompt_tokens())});
  result.push_back({"prompts", std::to_string(w.prompts)});
  result.push_back({"chunk", std::to_string(w.chunk)});
  result.push_back({"cached", std::to_string(w.cached)});
  result.push_back({"spec", fmt::format("k={},accept={:g}", w.draft, w.accepted)});
  result.push_back({"routing", w.routing.source});
  result.push_back({"a2a", dedup_name(w.dedup)});
  result.push_back({"overlap", overlap_name(w.overlap)});
  return result;
}

void add_changes(std::vector<Change>& changes, const std::vector<Named>& a,
                 const std::vector<Named>& b) {
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i].value != b[i].value) changes.push_back({a[i].name, a[i].value, b[i].value});
  }
}

}  // namespace

std::vector<Change> changes_between(const Scenario& a, const Scenario& b) {
  std::vector<Change> changes;
  add_changes(changes, sizes_of(a.model), sizes_of(b.model));
  add_changes(changes, formats_of(a.model), formats_of(b.model));
  add_changes(changes, deployment_of(a), deployment_of(b));
  return changes;
}

}  // namespace baltoro::plan
