#include "plan/measures.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "plan/arithmetic.h"
#include "plan/inventory.h"
#include "plan/key_value.h"
#include "plan/routing.h"

namespace baltoro::plan {
namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

const MlaConfig& attention(const Evaluated& point) { return point.scenario.model.config.mla; }
const MoeConfig& experts(const Evaluated& point) { return point.scenario.model.config.moe; }
bool has_attention(const Evaluated& point) { return point.scenario.model.num_attn() > 0; }
bool has_experts(const Evaluated& point) { return point.scenario.model.num_moe() > 0; }

// kv_a d (c + s), kv_b c H (d_n + d_v), q_b r_q H (d_n + s), or what stands in their place; of one
// layer.
double kv_q_parameters(const Evaluated& point) {
  if (!has_attention(point)) return kNone;
  const PlanModel& model = point.scenario.model;
  const MlaConfig& mla = attention(point);
  const double d = real(model.config.hidden_size);
  const double q_rank = real(mla.q_lora_rank);
  return d * real(mla_shape(model.config.mla).cache_width()) +
         (q_rank > 0 ? q_rank : d) * real(mla.num_heads * mla.qk_dim()) +
         attention_parameters(model).core;
}

// Of one more token in the cache, one layer: 2 H (2 c + s).
double core_flops(const Evaluated& point) {
  if (!has_attention(point)) return kNone;
  const MlaShape shape = mla_shape(point.scenario.model.config.mla);
  const auto flops = [&](std::int64_t start) {
    return mla_decode_cost(shape, start, DType::kBf16, DType::kBf16).flops;
  };
  return flops(1) - flops(0);
}

double core_intensity(const Evaluated& point) {
  return core_flops(point) / (2 * real(attention(point).cache_width()));
}

// Of one query and one key in expanded form: 2 H (d_n + s + d_v).
double pair_flops(const Evaluated& point) {
  if (!has_attention(point)) return kNone;
  const MlaConfig& mla = attention(point);
  return 2 * real(mla.num_heads * (mla.qk_dim() + mla.v_head_dim));
}

// Scores of a head are an image of its query's d_n + s values.
double rank_per_head(const Evaluated& point) {
  if (!has_attention(point)) return kNone;
  const MlaConfig& mla = attention(point);
  const std::int64_t keys = mla.kind == MlaKind::kGqa ? mla.qk_nope_dim : mla.kv_lora_rank;
  return real(std::min(mla.qk_nope_dim, keys) + mla.qk_rope_dim);
}

double routed_flops(const Evaluated& point) {
  return has_experts(point)
             ? 2 * real(experts(point).experts_per_token) * expert_parameters(point.scenario.model)
             : kNone;
}

double latent_flops(const Evaluated& point) {
  return has_experts(point)
             ? 4 * real(point.scenario.model.config.hidden_size * experts(point).latent_size)
             : kNone;
}

// Weight bytes of one layer's experts that t tokens touch, uniform routing.
double layer_traffic(const Evaluated& point, double tokens) {
  if (!has_experts(point)) return kNone;
  const PlanModel& model = point.scenario.model;
  return distinct_experts(real(experts(point).num_experts), real(experts(point).experts_per_token),
                          tokens) *
         expert_parameters(model) * format_bytes(model.formats.routed);
}

double comm_over_compute_time(const Evaluated& point) {
  double network = 0;
  for (const PartTime& time : point.totals.step.time) network += time.network;
  return network / point.totals.step.kernel_seconds();
}

using E = const Evaluated&;

std::vector<Measure> step_measures() {
  return {
      {"step", "step", "s", "ms", 1e3, true, false, "one step",
       [](E e) { return e.totals.step.seconds(); }},
      {"tpot", "TPOT", "s", "ms", 1e3, true, false, "a generated token",
       [](E e) { return e.totals.tpot > 0 ? e.totals.tpot : kNone; }},
      {"ttft", "TTFT", "s", "ms", 1e3, true, false, "the first token",
       [](E e) { return e.totals.ttft; }},
      {"user", "tok/s", "1/s", "a user", 1, true, true, "tokens a second of one sequence",
       [](E e) { return e.totals.tokens_per_user > 0 ? e.totals.tokens_per_user : kNone; }},
      {"device", "tok/s", "1/s", "a device", 1, true, true, "tokens a second of one device",
       [](E e) { return e.totals.tokens_per_device; }},
      {"flops", "FLOPs", "FLOP", "G", 1e-9, false, false, "of one device and step",
       [](E e) { return e.totals.step.total().flops; }},
      {"hbm", "HBM", "B", "GB", 1e-9, false, false, "bytes moved by one device and step",
       [](E e) { return e.totals.step.total().bytes(); }},
      {"net", "net", "B", "MB", 1e-6, false, false, "bytes sent by one device and step",
       [](E e) { return e.totals.step.total().network.bytes(); }},
      {"intensity", "FLOP/B", "FLOP/B", "", 1, false, true, "FLOPs over HBM bytes of the step",
       [](E e) { return e.totals.step.total().flops / e.totals.step.total().bytes(); }},
      {"comm", "comm/", "", "compute", 1, true, false, "network over kernel time of the step",
       comm_over_compute_time},
      {"mfu", "MFU", "", "%", 100, true, true, "ideal FLOPs over the BF16 peak",
       [](E e) { return e.totals.flop_utilization; }},
      {"mbu", "MBU", "", "%", 100, true, true, "bytes moved over the peak",
       [](E e) { return e.totals.byte_utilization; }},
      {"devices", "devices", "", "", 1, false, false, "of the deployment",
       [](E e) { return real(e.scenario.layout.devices()); }},
  };
}

std::vector<Measure> model_measures() {
  return {
      {"weights", "weights", "B", "GB", 1e-9, false, false, "on the fullest device",
       [](E e) { return e.capacity.fullest().weights; }},
      {"free", "free", "B", "GB", 1e-9, false, true, "on that device for caches and states",
       [](E e) { return e.capacity.free; }},
      {"max_batch", "most", "sequences", "seqs", 1, false, true, "sequences that fit",
       [](E e) { return real(e.capacity.max_batch); }},
      {"parameters", "params", "", "G", 1e-9, false, false, "of the model",
       [](E e) { return total_parameters(e.scenario.model); }},
      {"active", "active", "", "G", 1e-9, false, false, "parameters that a token meets",
       [](E e) { return active_parameters(e.scenario.model); }},
      {"stored", "stored", "B", "GB", 1e-9, false, false, "bytes of all weights",
       [](E e) { return total_bytes(e.scenario.model); }},
      {"state", "state", "B", "MB", 1e-6, false, false, "KDA state and convolution of a sequence",
       [](E e) {
         return state_bytes_per_sequence(e.scenario.model) +
                conv_bytes_per_sequence(e.scenario.model);
       }},
      {"cache", "cache", "B", "kB/tok", 1e-3, false, false, "bytes of a token, all layers",
       [](E e) { return cache_bytes_per_token(e.scenario.model); }},
  };
}

std::vector<Measure> attention_measures() {
  return {
      {"kv_q", "kv+q", "", "M", 1e-6, false, false, "parameters of kv_a, kv_b and q_b, one layer",
       kv_q_parameters},
      {"core", "decode", "FLOP", "FLOP/tok", 1, false, false,
       "attention over one cached token, one layer", core_flops},
      {"core_intensity", "FLOP/B", "FLOP/B", "BF16", 1, false, true,
       "of attention over a BF16 cache, all heads on one device", core_intensity},
      {"pair", "prefill", "FLOP", "FLOP/pair", 1, false, false,
       "one query and key in expanded form, one layer", pair_flops},
      {"rank", "rank/", "", "head", 1, false, true,
       "of the scores of one head: QK width in prefill", rank_per_head},
  };
}

std::vector<Measure> expert_measures() {
  return {
      {"latent", "l", "", "", 1, false, false, "width that experts read",
       [](E e) { return has_experts(e) ? real(e.scenario.model.expert_width()) : kNone; }},
      {"experts", "N", "", "", 1, false, true, "routed experts",
       [](E e) { return has_experts(e) ? real(experts(e).num_experts) : kNone; }},
      {"per_token", "K", "", "", 1, false, true, "experts that a token meets",
       [](E e) { return has_experts(e) ? real(experts(e).experts_per_token) : kNone; }},
      {"routed", "routed", "FLOP", "MFLOP", 1e-6, false, false, "routed experts, a token and layer",
       routed_flops},
      {"projections", "latent", "FLOP", "MFLOP", 1e-6, false, false,
       "latent projections, a token and layer", latent_flops},
      {"values", "sent", "", "values", 1, false, false, "K l: of a token and layer, one way",
       [](E e) {
         return has_experts(e)
                    ? real(experts(e).experts_per_token * e.scenario.model.expert_width())
                    : kNone;
       }},
      {"layer_1", "layer", "B", "GB t=1", 1e-9, false, false, "experts that 1 token touches",
       [](E e) { return layer_traffic(e, 1); }},
      {"layer_64", "layer", "B", "GB t=64", 1e-9, false, false, "experts that 64 tokens touch",
       [](E e) { return layer_traffic(e, 64); }},
      {"layer_all", "layer", "B", "GB all", 1e-9, false, false, "all routed experts of a layer",
       [](E e) { return layer_traffic(e, 1e12); }},
      {"sparsity", "N/K", "", "", 1, false, false, "tokens at the knee over rows an expert there",
       [](E e) {
         return has_experts(e) ? real(experts(e).num_experts) / real(experts(e).experts_per_token)
                               : kNone;
       }},
  };
}

}  // namespace

Evaluated evaluate(const Scenario& scenario) {
  if (scenario.layout.experts_on_host) {
    fail(ErrorCode::kUsage,
         "experts=host has no step to compare; the rule is experts=gpu, and baltoro plan MODEL "
         "answers for experts on the host");
  }
  return {scenario, compute_totals(scenario), compute_capacity(scenario)};
}

const std::vector<Measure>& measures() {
  static const std::vector<Measure> kMeasures = [] {
    std::vector<Measure> all = step_measures();
    for (const auto& group : {model_measures(), attention_measures(), expert_measures()}) {
      all.insert(all.end(), group.begin(), group.end());
    }
    return all;
  }();
  return kMeasures;
}

const Measure& find_measure(std::string_view key) {
  std::vector<std::string> known;
  for (const Measure& measure : measures()) {
    if (key == measure.key) return measure;
    known.emplace_back(measure.key);
  }
  fail_unknown("", key, "measure", known);
}

std::string longest_part(const Step& step) {
  const auto longest = std::max_element(
      step.time.begin(), step.time.end(),
      [](const PartTime& a, const PartTime& b) { return a.seconds() < b.seconds(); });
  const auto part = kAllParts.at(static_cast<std::size_t>(longest - step.time.begin()));
  return fmt::format("{}, {}", part_name(part), bound_name(longest->bound));
}

}  // namespace baltoro::plan
