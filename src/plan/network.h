// Bytes and time of collectives. Bytes are what one rank sends in one direction.
#pragma once

#include <cstdint>
#include <string_view>

#include "plan/arithmetic.h"
#include "plan/hardware.h"

namespace baltoro::plan {

// Distinct destinations of a token whose K of N experts lie on E ranks, its own rank counted:
//   R(E) = E - sum_r C(N - n_r, K) / C(N, K)
// n_r experts on rank r, N mod E ranks having one more.
double distinct_destinations(std::int64_t num_experts, std::int64_t per_token, std::int64_t ranks);

// T_comm / T_compute of routed experts bound by their FLOPs:
//   rho = F (b_d + b_c) / (2 M m B)     M matrices of inner width m an expert, all same-rate
// The founding notes' F / (3 m B) is M = 3 and one byte each way counted as one element.
double comm_over_compute(double flops, double bytes_both_ways, double expert_matrices,
                         double inner_width, double bandwidth);

// Whether a rank that holds a token sends one copy for each of its experts, for each rank that has
// some, or for each node that has some (and the node passes it on).
enum class Dedup : std::uint8_t { kFlat, kRank, kNode };
const char* dedup_name(Dedup dedup);
Dedup parse_dedup(std::string_view text);

// Bytes of one rank on the links of its domain and out of it, and calls of each.
struct Traffic {
  double inside = 0;
  double outside = 0;
  double calls_inside = 0;
  double calls_outside = 0;

  double bytes() const { return inside + outside; }
  Traffic& operator+=(const Traffic& other);
  Traffic operator*(double factor) const;
};

// Ranks of a collective, spread over whole domains of `domain` devices.
struct Group {
  std::int64_t ranks = 1;
  std::int64_t domain = 1;

  std::int64_t nodes() const { return ceil_div(ranks, domain); }
  std::int64_t inside() const { return ranks < domain ? ranks : domain; }
};

// All-reduce of `bytes` on every rank: 2 (n-1)/n bytes by ring, (n-1)/n where the switch adds up;
// across domains each rank reduces its share of the domain's sum.
Traffic all_reduce(const Group& group, double bytes, bool in_switch_reduction);
// Every rank ends with `bytes`, of which it had its share.
Traffic all_gather(const Group& group, double bytes);

// Dispatch or combine of one MoE layer.
struct AllToAll {
  std::int64_t num_experts = 0;
  std::int64_t per_token = 0;
  double tokens_per_rank = 0;
  double row_bytes = 0;  // one copy of one token
};
Traffic all_to_all(const Group& group, const AllToAll& what, Dedup dedup);

// Efficiency of links and latency of their calls.
struct LinkRates {
  double inside = 0;  // bytes/s
  double outside = 0;
  double inside_latency = 0;  // s
  double outside_latency = 0;
};
// Both levels at once, then the latencies. Throws Error{kUsage} where bytes have no link.
double traffic_seconds(const Traffic& traffic, const LinkRates& links, const Hardware& hardware);

}  // namespace baltoro::plan
