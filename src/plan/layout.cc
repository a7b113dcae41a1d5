#include "plan/layout.h"

#include <fmt/ranges.h>

#include <array>

#include "plan/key_value.h"

namespace baltoro::plan {
namespace {

constexpr std::int64_t kMostRanks = 65536;

struct CountKey {
  const char* name;
  std::int64_t Layout::*field;
  std::int64_t least;
};
constexpr std::array<CountKey, 6> kCounts = {{{"tp", &Layout::tp, 1},
                                              {"ep", &Layout::ep, 1},
                                              {"dp", &Layout::dp, 1},
                                              {"pp", &Layout::pp, 1},
                                              {"dcp", &Layout::dcp, 1},
                                              {"redundant", &Layout::redundant_experts, 0}}};

// The index of `value` among `choices`; throws where it is none.
std::size_t choose(std::string_view key, std::string_view value,
                   const std::vector<std::string>& choices) {
  for (std::size_t i = 0; i < choices.size(); ++i) {
    if (value == choices[i]) return i;
  }
  fail_unknown(fmt::format("--layout {}=", key), value, "choice", choices);
}

bool set_choice(Layout& layout, const std::string& key, const std::string& value) {
  if (key == "sp") {
    layout.sequence_parallel = choose(key, value, {"off", "on"}) == 1;
  } else if (key == "attn") {
    layout.attention_dp = choose(key, value, {"tp", "dp"}) == 1;
  } else if (key == "experts") {
    // cpu is the word of other tools.
    layout.experts_on_host = choose(key, value, {"gpu", "host", "cpu"}) > 0;
  } else if (key == "replicate") {
    const std::size_t choice = choose(key, value, {"none", "latent", "latent+small"});
    layout.replicate_latent = choice > 0;
    layout.replicate_small = choice > 1;
  } else {
    return false;
  }
  return true;
}

// The divisor of `of` that is nearest to `wanted`, the smaller among equals.
std::int64_t nearest_divisor(std::int64_t of, std::int64_t wanted) {
  std::int64_t best = 1;
  for (std::int64_t i = 1; i <= of; ++i) {
    if (of % i == 0 && std::abs(i - wanted) < std::abs(best - wanted)) best = i;
  }
  return best;
}

void require_divides(std::vector<std::string>& problems, const char* key, std::int64_t value,
                     std::int64_t of, const char* what) {
  if (of > 0 && of % value == 0) return;
  problems.push_back(fmt::format("{}={} does not divide the {} {}; the nearest that does is {}={}",
                                 key, value, of, what, key, nearest_divisor(of, value)));
}

// With copies every rank holds as many experts as the others: what serving systems ask for.
void check_copies(std::vector<std::string>& problems, const Layout& layout, std::int64_t experts) {
  const std::int64_t copies = layout.redundant_experts, ranks = layout.ep;
  const std::int64_t over = (experts + copies) % ranks;
  if (copies == 0 || ranks == 1 || over == 0) return;
  const std::int64_t fewer = copies - over, more = copies + ranks - over;
  problems.push_back(fmt::format(
      "redundant={}: {} + {} experts do not divide over ep={} ranks; the nearest that do is "
      "redundant={}",
      copies, experts, copies, ranks, fewer >= 0 && over <= ranks - over ? fewer : more));
}

}  // namespace

Layout parse_layout(std::string_view text) {
  Layout layout;
  std::vector<std::string> known = {"sp", "attn", "experts", "replicate"};
  for (const CountKey& count : kCounts) known.emplace_back(count.name);
  for (const auto& [key, value] : split_key_values("--layout", text)) {
    if (set_choice(layout, key, value)) continue;
    bool found = false;
    for (const CountKey& count : kCounts) {
      if (key != count.name) continue;
      layout.*count.field = parse_count("--layout " + key, value, count.least, kMostRanks);
      found = true;
    }
    if (!found) fail_unknown("--layout ", key, "key", known);
  }
  return layout;
}

std::string describe(const Layout& layout) {
  std::vector<std::string> words;
  for (const CountKey& count : kCounts) {
    if (layout.*count.field != count.least) {
      words.push_back(fmt::format("{}={}", count.name, layout.*count.field));
    }
  }
  if (layout.sequence_parallel) words.emplace_back("sp=on");
  if (layout.attention_dp) words.emplace_back("attn=dp");
  if (layout.tp > 1 && !layout.replicate_latent) words.emplace_back("replicate=none");
  if (layout.tp > 1 && layout.replicate_small) words.emplace_back("replicate=latent+small");
  if (layout.experts_on_host) words.emplace_back("experts=host");
  return words.empty() ? "tp=1" : fmt::format("{}", fmt::join(words, ","));
}

void check_layout(const Layout& layout, const PlanModel& model) {
  std::vector<std::string> problems;
  const std::int64_t heads = layout.attention_tp();
  if (model.num_kda() > 0) {
    require_divides(problems, "tp", heads, model.config.kda.num_heads, "KDA heads");
  }
  if (model.num_attn() > 0 &&
      (model.num_kda() == 0 || model.config.mla.num_heads != model.config.kda.num_heads)) {
    require_divides(problems, "tp", heads, model.config.mla.num_heads, "attention heads");
  }
  require_divides(problems, "dcp", layout.dcp, heads, "ranks that share an attention (tp)");
  if (layout.ep > 1) {
    if (model.num_moe() == 0) {
      problems.push_back(
          fmt::format("ep={} in a model without experts; the rule is ep=1", layout.ep));
    } else {
      require_divides(problems, "ep", layout.ep, layout.stage_devices(),
                      "devices of a stage (tp x dp)");
      if (layout.ep > model.config.moe.num_experts) {
        problems.push_back(
            fmt::format("ep={} exceeds the {} experts", layout.ep, model.config.moe.num_experts));
      }
    }
  }
  if (layout.redundant_experts > 0 && layout.ep == 1) {
    problems.push_back(fmt::format("redundant={} copies need expert ranks; the rule is ep > 1",
                                   layout.redundant_experts));
  }
  check_copies(problems, layout, model.config.moe.num_experts);
  if (layout.pp > model.config.num_layers) {
    problems.push_back(fmt::format("pp={} stages of {} layers; at most pp={}", layout.pp,
                                   model.config.num_layers, model.config.num_layers));
  }
  if (layout.sequence_parallel && layout.tp == 1) {
    problems.push_back("sp=on splits rows over tp ranks; it needs tp > 1");
  }
  if (problems.empty()) return;
  fail(ErrorCode::kUsage, "--layout: {}", fmt::join(problems, "; "));
}

std::vector<std::int64_t> stage_begins(std::int64_t num_layers, std::int64_t stages) {
  std::vector<std::int64_t> begins = {0};
  for (std::int64_t i = 0; i < stages; ++i) {
    begins.push_back(begins.back() + num_layers / stages + (i < num_layers % stages ? 1 : 0));
  }
  return begins;
}

}  // namespace baltoro::plan
