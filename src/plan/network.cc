#include "plan/network.h"

#include <algorithm>
#include <cmath>

#include "plan/arithmetic.h"
#include "plan/key_value.h"

namespace baltoro::plan {
namespace {

// C(N - n, K) / C(N, K): none of the K lies among n of N.
double chance_of_none(std::int64_t total, std::int64_t chosen, std::int64_t held) {
  if (chosen > total - held) return 0;
  const auto log_choose = [](double n, double k) {
    return std::lgamma(n + 1) - std::lgamma(k + 1) - std::lgamma(n - k + 1);
  };
  return std::exp(log_choose(real(total - held), real(chosen)) -
                  log_choose(real(total), real(chosen)));
}

// A rank's share of what leaves it for other ranks of its domain, and for other domains.
struct Shares {
  double inside;
  double outside;
};
Shares shares(const Group& group) {
  const double ranks = real(group.ranks);
  const double near = real(group.inside());
  return {(near - 1) / ranks, (ranks - near) / ranks};
}

}  // namespace

double distinct_destinations(std::int64_t num_experts, std::int64_t per_token, std::int64_t ranks) {
  const std::int64_t held = num_experts / ranks;
  const std::int64_t longer = num_experts % ranks;
  return real(ranks) - real(ranks - longer) * chance_of_none(num_experts, per_token, held) -
         real(longer) * chance_of_none(num_experts, per_token, held + 1);
}

double comm_over_compute(double flops, double bytes_both_ways, double expert_matrices,
                         double inner_width, double bandwidth) {
  return flops * bytes_both_ways / (2 * expert_matrices * inner_width * bandwidth);
}

const char* dedup_name(Dedup dedup) {
  return dedup == Dedup::kFlat ? "flat" : dedup == Dedup::kRank ? "rank" : "node";
}

Dedup parse_dedup(std::string_view text) {
  for (const Dedup dedup : {Dedup::kFlat, Dedup::kRank, Dedup::kNode}) {
    if (text == dedup_name(dedup)) return dedup;
  }
  fail_unknown("--a2a ", text, "form", {"flat", "rank", "node"});
}

Traffic& Traffic::operator+=(const Traffic& other) {
  inside += other.inside;
  outside += other.outside;
  calls_inside += other.calls_inside;
  calls_outside += other.calls_outside;
  return *this;
}

Traffic Traffic::operator*(double factor) const {
  return {inside * factor, outside * factor, calls_inside * factor, calls_outside * factor};
}

Traffic all_reduce(const Group& group, double bytes, bool in_switch_reduction) {
  if (group.ranks <= 1) return {};
  const double near = real(group.inside());
  const double nodes = real(group.nodes());
  Traffic traffic;
  traffic.inside = (in_switch_reduction ? 1 : 2) * (near - 1) / near * bytes;
  traffic.calls_inside = near > 1 ? 1 : 0;
  if (nodes > 1) {
    traffic.outside = 2 * (nodes - 1) / nodes * bytes / near;
    traffic.calls_outside = 1;
  }
  return traffic;
}

Traffic all_gather(const Group& group, double bytes) {
  if (group.ranks <= 1) return {};
  const Shares share = shares(group);
  return {share.inside * bytes, share.outside * bytes, group.inside() > 1 ? 1.0 : 0.0,
          group.nodes() > 1 ? 1.0 : 0.0};
}

Traffic all_to_all(const Group& group, const AllToAll& what, Dedup dedup) {
  if (group.ranks <= 1) return {};
  const Shares share = shares(group);
  const auto copies = [&](std::int64_t places) {
    return distinct_destinations(what.num_experts, what.per_token,
                                 std::min(places, what.num_experts));
  };
  const double row = what.tokens_per_rank * what.row_bytes;
  Traffic traffic;
  traffic.calls_inside = group.inside() > 1 ? 1 : 0;
  traffic.calls_outside = group.nodes() > 1 ? 1 : 0;
  switch (dedup) {
    case Dedup::kFlat:
      traffic.inside = row * real(what.per_token) * share.inside;
      traffic.outside = row * real(what.per_token) * share.outside;
      break;
    case Dedup::kRank:
      traffic.inside = row * copies(group.ranks) * share.inside;
      traffic.outside = row * copies(group.ranks) * share.outside;
      break;
    case Dedup::kNode: {
      // One copy a node leaves by the outer link; inside, all ranks of the domain get theirs from
      // the one that it landed on, which keeps its own.
      const double nodes = real(group.nodes());
      const double near = real(group.inside());
      traffic.outside = row * copies(group.nodes()) * (nodes - 1) / nodes;
      traffic.inside = row * copies(group.ranks) * (near - 1) / near;
      break;
    }
  }
  return traffic;
}

double traffic_seconds(const Traffic& traffic, const LinkRates& links, const Hardware& hardware) {
  const auto seconds = [&](double bytes, double rate, const char* level) {
    if (bytes <= 0) return 0.0;
    if (rate <= 0) {
      fail(ErrorCode::kUsage, "{} has no {} link; use fewer devices, or give its bandwidth",
           hardware.name, level);
    }
    return bytes / rate;
  };
  return std::max(seconds(traffic.inside, links.inside, "scale-up"),
                  seconds(traffic.outside, links.outside, "scale-out")) +
         traffic.calls_inside * links.inside_latency +
         traffic.calls_outside * links.outside_latency;
}

}  // namespace baltoro::plan
