// How tokens meet experts: distinct experts, load of the slowest rank, padding of grouped products.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace baltoro::plan {

// Popularity of experts. kZipf: expert i = 1..N has p_i = min(1, lambda i^-s); kHistogram: p_i =
// min(1, lambda c_i); lambda such that the p_i add up to K.
struct Routing {
  enum class Kind : std::uint8_t { kUniform, kZipf, kHistogram };
  Kind kind = Kind::kUniform;
  double exponent = 0;
  std::vector<double> counts;
  std::string source = "uniform";
};

// "uniform", "zipf:0.3"; a histogram comes by histogram_routing. Throws Error{kUsage}.
Routing parse_routing(std::string_view text);
// Counts by expert id, separated by white space or commas. Throws Error{kUsage} for what is no
// count; `where` begins the message.
Routing histogram_routing(std::string_view text, const std::string& where);

// The chance of each of N experts to be among the K of one token. Throws Error{kUsage} where a
// histogram has not N counts, or fewer than K that are above 0.
std::vector<double> popularity(const Routing& routing, std::int64_t num_experts,
                               std::int64_t per_token);

// Distinct experts that t tokens touch in expectation.
//   D(t) = N (1 - (1 - K/N)^t) where uniform;  sum_i (1 - (1 - p_i)^t) else
double distinct_experts(double num_experts, double per_token, double tokens);
double distinct_experts(std::span<const double> popularity, double tokens);

// Largest over mean load of `ranks` ranks that hold equal numbers of experts, dealt out in turn;
// with `redundant` further copies, of the most popular experts in halves, thirds and so on, every
// rank takes the largest copies that it can balance.
double placement_skew(std::span<const double> popularity, std::int64_t ranks,
                      std::int64_t redundant);
// Uniform routing is uneven too: 1 + sqrt(2 ln E / load) with `load` assignments a rank.
double chance_skew(double load, std::int64_t ranks);

// Rows that a grouped product computes where each touched expert is padded to tiles:
//   distinct * tile * ceil(rows / distinct / tile)
double padded_rows(double rows, double distinct, double tile);

}  // namespace baltoro::plan
