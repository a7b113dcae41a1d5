#include "plan/variants.h"

#include <cmath>

#include "plan/arithmetic.h"
#include "plan/key_value.h"

namespace baltoro::plan {
namespace {

bool is_whole(double value) { return value >= 1 && std::abs(value - std::round(value)) < 1e-6; }

std::int64_t whole(const PlanModel& model, double alpha, const char* symbol, double value) {
  if (!is_whole(value)) {
    fail(ErrorCode::kUsage,
         "alpha={:g} gives {} = {:g} in {}; the rule is a whole number, the nearest is {:.0f}",
         alpha, symbol, value, model.name, std::max(1.0, std::round(value)));
  }
  return std::llround(value);
}

std::int64_t latent_width(const PlanModel& model, double alpha) {
  const double hidden = real(model.config.hidden_size);
  const double width = hidden / alpha;
  if (is_whole(width)) return std::llround(width);
  double best = 1;
  for (double divisor = 1; divisor <= hidden; ++divisor) {
    if (std::fmod(hidden, divisor) == 0 && std::abs(divisor - alpha) < std::abs(best - alpha)) {
      best = divisor;
    }
  }
  fail(ErrorCode::kUsage,
       "alpha={:g}: l = {:g} / alpha is no whole number; the nearest that gives one is alpha={:g}",
       alpha, hidden, best);
}

MlaConfig& attention_of(PlanModel& model, std::string_view text) {
  if (model.num_attn() == 0) {
    fail(ErrorCode::kUsage, "{}: {} has no attention layer to change", text, model.name);
  }
  return model.config.mla;
}

void set_latent(PlanModel& model, std::int64_t latent, std::int64_t side) {
  MlaConfig& mla = model.config.mla;
  mla.kind = MlaKind::kLatent;
  mla.num_kv_heads = mla.num_heads;
  mla.kv_lora_rank = latent;
  mla.qk_rope_dim = side;
}

constexpr std::int64_t kMostWidth = std::int64_t{1} << 20;

// The two numbers of "512:64".
std::pair<std::int64_t, std::int64_t> pair_of(std::string_view what, std::string_view text,
                                              char separator, std::int64_t least) {
  const std::size_t at = text.find(separator);
  if (at == std::string_view::npos) {
    fail(ErrorCode::kUsage, "{} is \"{}\"; the form is A{}B, both whole numbers, such as {}", what,
         text, separator, separator == 'x' ? "2x144" : fmt::format("512{}64", separator));
  }
  return {parse_count(what, text.substr(0, at), 1, kMostWidth),
          parse_count(what, text.substr(at + 1), least, kMostWidth)};
}

}  // namespace

LatentMode parse_latent_mode(std::string_view text) {
  if (text == "eff") return LatentMode::kEff;
  if (text == "acc") return LatentMode::kAcc;
  if (text == "k3") return LatentMode::kK3;
  fail_unknown("mode=", text, "mode", {"eff", "acc", "k3"});
}

void apply_alpha(PlanModel& model, double alpha, LatentMode mode) {
  MoeConfig& moe = model.config.moe;
  if (model.num_moe() == 0) {
    fail(ErrorCode::kUsage, "alpha: {} has no routed experts; the rule is a MoE model", model.name);
  }
  if (mode == LatentMode::kK3 && moe.latent_size > 0) {
    fail(ErrorCode::kUsage,
         "mode=k3 starts from a model without a latent, and {} has one of {}; the nearest is k2",
         model.name, moe.latent_size);
  }
  const std::int64_t width = latent_width(model, alpha);
  const double narrower = real(model.expert_width()) / real(width);
  const bool k3 = mode == LatentMode::kK3;
  const double more = mode == LatentMode::kEff ? 1 : narrower;
  const double experts = real(moe.num_experts) * narrower * (k3 ? 7.0 / 6 : 1);
  const double inner = real(moe.expert_ffn_size) * (k3 ? 1.5 : 1);
  moe.num_experts = whole(model, alpha, "N", experts);
  moe.experts_per_token = whole(model, alpha, "K", real(moe.experts_per_token) * more);
  moe.expert_ffn_size = whole(model, alpha, "m", inner);
  moe.latent_size = width == model.config.hidden_size ? 0 : width;
  moe.stable_norm = moe.latent_size > 0;
  check_model(model);
}

void apply_split(PlanModel& model, std::string_view text) {
  MlaConfig& mla = attention_of(model, "split");
  if (mla.kind != MlaKind::kLatent) {
    fail(ErrorCode::kUsage, "split={}: {} caches no latent; kv=mla:C+S makes one", text,
         model.name);
  }
  const auto [latent, side] = pair_of("split", text, ':', 0);
  set_latent(model, latent, side);
  check_model(model);
}

void apply_kv(PlanModel& model, std::string_view text) {
  const std::size_t colon = std::min(text.find(':'), text.size());
  const std::string_view kind = text.substr(0, colon);
  const std::string_view rest = colon < text.size() ? text.substr(colon + 1) : "";
  MlaConfig& mla = attention_of(model, "kv");
  if (kind == "mla") {
    const auto [latent, side] = pair_of("kv=mla", rest, '+', 0);
    set_latent(model, latent, side);
  } else if (kind == "unified") {
    mla.qk_nope_dim += mla.qk_rope_dim;
    set_latent(model, parse_count("kv=unified", rest, 1, kMostWidth), 0);
  } else if (kind == "mqa") {
    set_latent(model, parse_count("kv=mqa", rest, 1, kMostWidth), 0);
    mla.kind = MlaKind::kMqa;
    mla.qk_nope_dim = mla.kv_lora_rank;
  } else if (kind == "gqa") {
    const auto [heads, width] = pair_of("kv=gqa", rest, 'x', 1);
    mla.kind = MlaKind::kGqa;
    mla.num_kv_heads = heads;
    mla.qk_nope_dim = mla.v_head_dim = width;
    mla.kv_lora_rank = mla.qk_rope_dim = 0;
  } else {
    fail_unknown("kv=", kind, "cache", {"mla:512+64", "unified:576", "mqa:576", "gqa:2x144"});
  }
  check_model(model);
}

}  // namespace baltoro::plan
