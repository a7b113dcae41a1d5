#include "plan/search.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <tuple>

#include "core/error.h"
#include "plan/arithmetic.h"
#include "plan/capacity.h"
#include "plan/explain.h"
#include "plan/totals.h"

namespace baltoro::plan {
namespace {

constexpr double kAlike = 0.01;  // closer than any of these numbers is known

std::vector<std::int64_t> divisors(std::int64_t of) {
  std::vector<std::int64_t> result;
  for (std::int64_t i = 1; i <= of; ++i) {
    if (of % i == 0) result.push_back(i);
  }
  return result;
}

void add_unique(std::vector<std::int64_t>& list, std::int64_t value) {
  if (std::find(list.begin(), list.end(), value) == list.end()) list.push_back(value);
}

// Expert ranks worth a try in a stage.
std::vector<std::int64_t> expert_ranks(const Scenario& scenario, const Layout& layout) {
  std::vector<std::int64_t> ranks = {1};
  if (scenario.model.num_moe() == 0) return ranks;
  const std::int64_t stage = layout.stage_devices();
  const std::int64_t domain = scenario.hardware.scale_up_domain;
  const std::int64_t experts = scenario.model.config.moe.num_experts;
  for (const std::int64_t count : {stage, domain}) {
    if (count > 1 && stage % count == 0 && count <= experts) add_unique(ranks, count);
  }
  return ranks;
}

bool is_allowed(const Layout& layout, const PlanModel& model) {
  try {
    check_layout(layout, model);
  } catch (const Error&) {
    return false;
  }
  return true;
}

// The forms of one (tp, dp, pp).
void add_forms(std::vector<Layout>& layouts, const Scenario& scenario, const Layout& base) {
  const std::vector<bool> off_on = {false, true};
  const std::vector<bool> only_off = {false};
  const bool split = base.tp > 1;
  const bool latent = scenario.model.config.moe.latent_size > 0 && split;
  for (const bool attention_dp : split ? off_on : only_off) {
    for (const std::int64_t ep : expert_ranks(scenario, base)) {
      for (const bool sequence_parallel : split ? off_on : only_off) {
        for (const bool replicated : latent ? off_on : only_off) {
          std::vector<std::int64_t> spreads = {1};
          if (!attention_dp && scenario.model.num_attn() > 0) add_unique(spreads, base.tp);
          for (const std::int64_t dcp : spreads) {
            Layout layout = base;
            layout.attention_dp = attention_dp;
            layout.ep = ep;
            layout.sequence_parallel = sequence_parallel;
            layout.replicate_latent = replicated;
            layout.dcp = dcp;
            if (is_allowed(layout, scenario.model)) layouts.push_back(layout);
          }
        }
      }
    }
  }
}

std::vector<Layout> all_layouts(const Scenario& scenario, std::int64_t devices) {
  std::vector<Layout> layouts;
  for (const std::int64_t count : divisors(devices)) {
    for (const std::int64_t tp : divisors(count)) {
      for (const std::int64_t pp : divisors(count / tp)) {
        if (pp > scenario.model.config.num_layers) continue;
        Layout base;
        base.tp = tp;
        base.pp = pp;
        base.dp = count / tp / pp;
        add_forms(layouts, scenario, base);
      }
    }
  }
  return layouts;
}

double decode_seconds(Scenario scenario, std::int64_t batch) {
  scenario.workload.batch = batch;
  const double yield = scenario.workload.phase == Phase::kVerify ? scenario.workload.accepted : 1;
  return compute_step(scenario, table_step(scenario.workload)).seconds() / yield;
}

// The largest batch up to `most` whose tokens keep the limit; TPOT grows with the batch.
std::int64_t largest_batch(const Scenario& scenario, std::int64_t most, double limit) {
  if (limit <= 0 || decode_seconds(scenario, most) <= limit) return most;
  std::int64_t low = scenario.workload.batch;
  std::int64_t high = most;
  while (high - low > 1) {
    const std::int64_t middle = (low + high) / 2;
    (decode_seconds(scenario, middle) <= limit ? low : high) = middle;
  }
  return low;
}

std::string does_not_hold(const Capacity& capacity, const Workload& workload) {
  if (capacity.free < 0) {
    return fmt::format("weights exceed the memory by {}B a device", with_prefix(-capacity.free));
  }
  return fmt::format("holds {} of {} sequences", capacity.max_batch, workload.batch);
}

Candidate judge(Scenario scenario, const Layout& layout, const Limits& limits) {
  scenario.layout = layout;
  Candidate candidate;
  candidate.layout = layout;
  const Capacity capacity = compute_capacity(scenario);
  if (!capacity.fits) {
    candidate.verdict = Verdict::kNoFit;
    candidate.reason = does_not_hold(capacity, scenario.workload);
    candidate.latency = std::max(0.0, -capacity.free);  // the nearest to fit comes first
    return candidate;
  }
  const Totals totals = compute_totals(scenario);
  candidate.ttft = totals.ttft;
  const bool prefill = scenario.workload.phase == Phase::kPrefill;
  candidate.latency = prefill ? totals.ttft : totals.tpot;
  if (prefill) {
    candidate.batch = scenario.workload.prompts;
    const std::int64_t tokens = candidate.batch * scenario.workload.fresh_tokens();
    candidate.throughput = real(tokens) / totals.ttft;
  } else {
    constexpr std::int64_t kMost = 65536;
    candidate.batch = largest_batch(scenario, std::min(capacity.max_batch, kMost), limits.tpot);
    candidate.throughput = real(candidate.batch) / decode_seconds(scenario, candidate.batch);
  }
  const auto beyond = [&](const char* name, double value, double limit) {
    if (limit <= 0 || value <= limit) return;
    candidate.verdict = Verdict::kTooSlow;
    candidate.reason =
        fmt::format("{} {}s, the limit is {}s", name, with_prefix(value), with_prefix(limit));
  };
  if (!prefill) beyond("TPOT", totals.tpot, limits.tpot);
  beyond("TTFT", totals.ttft, limits.ttft);
  return candidate;
}

// At least as good in all of three, within `slack`.
bool covers(const Candidate& a, const Candidate& b, double slack) {
  return a.latency <= b.latency * (1 + slack) && a.throughput >= b.throughput * (1 - slack) &&
         a.layout.devices() <= b.layout.devices();
}

// Shortest latency, then most tokens, then fewest devices, then the simplest layout.
bool is_before(const Candidate& a, const Candidate& b) {
  const auto key = [](const Candidate& c) {
    return std::tuple(c.latency, -c.throughput, c.layout.devices(), describe(c.layout).size());
  };
  return key(a) < key(b);
}

std::string times(double ratio, const char* better, const char* worse) {
  if (std::abs(ratio - 1) <= kAlike) return {};
  return fmt::format("{:.3g} x {}", ratio > 1 ? ratio : 1 / ratio, ratio > 1 ? worse : better);
}

// What of its step takes longer than in the layout that beats it.
std::string slowest_part(const Scenario& scenario, const Layout& mine, const Layout& other) {
  Scenario changed = scenario;
  const auto step_of = [&](const Layout& layout) {
    changed.layout = layout;
    return compute_step(changed, table_step(changed.workload));
  };
  const Step here = step_of(mine);
  const Step there = step_of(other);
  Part worst = Part::kEmbed;
  const auto longer = [&](Part part) {
    return here.time_of(part).seconds() - there.time_of(part).seconds();
  };
  for (const Part part : kAllParts) {
    if (longer(part) > longer(worst)) worst = part;
  }
  if (longer(worst) <= kAlike * there.seconds()) return {};
  const PartTime& time = here.time_of(worst);
  const PartTime& before = there.time_of(worst);
  const double messages = (time.network - time.hidden) - (before.network - before.hidden);
  return fmt::format("{} takes {}s more ({})", part_name(worst), with_prefix(longer(worst)),
                     bound_name(2 * messages > longer(worst) ? Bound::kNetwork : time.bound));
}

std::string why_dominated(const Scenario& scenario, const Candidate& loser,
                          const Candidate& winner) {
  std::vector<std::string> words;
  const auto add = [&](const std::string& text) {
    if (!text.empty()) words.push_back(text);
  };
  add(times(loser.latency / winner.latency, "shorter", "the latency"));
  add(times(winner.throughput / loser.throughput, "more tokens", "fewer tokens"));
  if (loser.layout.devices() > winner.layout.devices()) {
    add(fmt::format("{} devices more", loser.layout.devices() - winner.layout.devices()));
  }
  add(slowest_part(scenario, loser.layout, winner.layout));
  std::string text = fmt::format("against {}:", describe(winner.layout));
  for (const std::string& word : words) text += (&word == &words.front() ? " " : ", ") + word;
  return words.empty() ? fmt::format("within 1 % of {}", describe(winner.layout)) : text;
}

void split_best(std::vector<Candidate>& candidates, std::vector<Candidate>& best) {
  std::sort(candidates.begin(), candidates.end(), is_before);
  for (Candidate& candidate : candidates) {
    if (candidate.verdict != Verdict::kBest) continue;
    const bool covered = std::any_of(best.begin(), best.end(), [&](const Candidate& kept) {
      return covers(kept, candidate, kAlike);
    });
    if (covered) {
      candidate.verdict = Verdict::kDominated;
    } else {
      best.push_back(candidate);
    }
  }
}

}  // namespace

const char* verdict_name(Verdict verdict) {
  constexpr std::array kNames = {"best", "dominated", "too slow", "no fit"};
  return kNames.at(static_cast<std::size_t>(verdict));
}

LayoutSearch search_layouts(const Scenario& scenario, std::int64_t devices, const Limits& limits) {
  if (scenario.layout.experts_on_host) {
    fail(ErrorCode::kUsage, "layouts with experts=host are not searched; the rule is experts=gpu");
  }
  std::vector<Candidate> candidates;
  for (const Layout& layout : all_layouts(scenario, devices)) {
    candidates.push_back(judge(scenario, layout, limits));
  }
  LayoutSearch search;
  search.tried = static_cast<std::int64_t>(candidates.size());
  split_best(candidates, search.best);

  using Family = std::tuple<std::int64_t, std::int64_t, std::int64_t, std::int64_t, bool>;
  const auto family = [](const Layout& l) {
    return Family(l.tp, l.dp, l.pp, l.ep, l.attention_dp);
  };
  std::map<Family, const Candidate*> first;
  for (const Candidate& candidate : candidates) {
    const auto [at, fresh] = first.emplace(family(candidate.layout), &candidate);
    if (!fresh && candidate.verdict < at->second->verdict) at->second = &candidate;
  }
  for (const auto& [key, candidate] : first) {
    if (candidate->verdict == Verdict::kBest) continue;
    Candidate rival = *candidate;
    if (rival.verdict == Verdict::kDominated) {
      const auto winner =
          std::find_if(search.best.begin(), search.best.end(),
                       [&](const Candidate& kept) { return covers(kept, rival, kAlike); });
      rival.reason = why_dominated(scenario, rival, *winner);
    }
    search.rivals.push_back(std::move(rival));
  }
  std::sort(search.rivals.begin(), search.rivals.end(), [](const Candidate& a, const Candidate& b) {
    return std::pair(a.verdict, a.latency) < std::pair(b.verdict, b.latency);
  });
  return search;
}

}  // namespace baltoro::plan
