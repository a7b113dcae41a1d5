#include "plan/routing.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <queue>

#include "plan/key_value.h"

namespace baltoro::plan {
namespace {

// min(1, lambda w_i) with the sum K.
std::vector<double> scaled(std::vector<double> weights, double sum) {
  double low = 0;
  double high = 1;
  const auto total = [&](double lambda) {
    double result = 0;
    for (const double w : weights) result += std::min(1.0, lambda * w);
    return result;
  };
  while (total(high) < sum) high *= 2;
  for (int i = 0; i < 100; ++i) {
    const double middle = (low + high) / 2;
    (total(middle) < sum ? low : high) = middle;
  }
  for (double& w : weights) w = std::min(1.0, high * w);
  return weights;
}

// Loads of all copies where each further copy goes to the expert whose copies are the most loaded.
std::vector<double> with_copies(std::span<const double> popularity, std::int64_t redundant) {
  struct Expert {
    double load;
    double copies;
    bool operator<(const Expert& other) const { return load / copies < other.load / other.copies; }
  };
  std::priority_queue<Expert> experts;
  for (const double p : popularity) experts.push({p, 1});
  for (std::int64_t i = 0; i < redundant; ++i) {
    Expert hottest = experts.top();
    experts.pop();
    hottest.copies += 1;
    experts.push(hottest);
  }
  std::vector<double> loads;
  for (; !experts.empty(); experts.pop()) {
    const Expert& expert = experts.top();
    loads.insert(loads.end(), static_cast<std::size_t>(expert.copies), expert.load / expert.copies);
  }
  std::sort(loads.begin(), loads.end(), std::greater<>());
  return loads;
}

}  // namespace

Routing parse_routing(std::string_view text) {
  Routing routing;
  routing.source = text;
  if (text == "uniform") return routing;
  constexpr std::string_view kZipf = "zipf:";
  if (text.starts_with(kZipf)) {
    if (text == kZipf) {
      fail(ErrorCode::kUsage, "--routing {}: without its exponent; the form is zipf:S, zipf:0.3",
           text);
    }
    routing.kind = Routing::Kind::kZipf;
    routing.exponent = parse_number("--routing zipf", text.substr(kZipf.size()), 0, 10);
    return routing;
  }
  fail_unknown("--routing ", text, "routing", {"uniform", "zipf:S", "hist:FILE"});
}

Routing histogram_routing(std::string_view text, const std::string& where) {
  Routing routing;
  routing.kind = Routing::Kind::kHistogram;
  routing.source = where;
  constexpr std::string_view kSpace = " \t\r\n,";
  std::size_t begin = text.find_first_not_of(kSpace);
  while (begin != std::string_view::npos) {
    const std::size_t end = std::min(text.find_first_of(kSpace, begin), text.size());
    const std::string name = fmt::format("{}: count {}", where, routing.counts.size());
    routing.counts.push_back(parse_number(name, text.substr(begin, end - begin), 0));
    begin = text.find_first_not_of(kSpace, end);
  }
  return routing;
}

std::vector<double> popularity(const Routing& routing, std::int64_t num_experts,
                               std::int64_t per_token) {
  const auto n = static_cast<std::size_t>(num_experts);
  const auto k = static_cast<double>(per_token);
  if (routing.kind == Routing::Kind::kUniform) {
    return std::vector<double>(n, k / static_cast<double>(num_experts));
  }
  std::vector<double> weights = routing.counts;
  if (routing.kind == Routing::Kind::kZipf) {
    weights.resize(n);
    for (std::size_t i = 0; i < n; ++i) {
      weights[i] = std::pow(static_cast<double>(i + 1), -routing.exponent);
    }
  }
  if (weights.size() != n) {
    fail(ErrorCode::kUsage, "{}: {} counts for a model of {} experts; the rule is one an expert",
         routing.source, weights.size(), num_experts);
  }
  const auto used = std::count_if(weights.begin(), weights.end(), [](double w) { return w > 0; });
  if (static_cast<double>(used) < k) {
    fail(ErrorCode::kUsage, "{}: {} experts with a count above 0; a token needs {}", routing.source,
         used, per_token);
  }
  return scaled(std::move(weights), k);
}

double distinct_experts(double num_experts, double per_token, double tokens) {
  return num_experts * (1 - std::pow(1 - per_token / num_experts, tokens));
}

double distinct_experts(std::span<const double> popularity, double tokens) {
  double sum = 0;
  for (const double p : popularity) sum += 1 - std::pow(1 - p, tokens);
  return sum;
}

double placement_skew(std::span<const double> popularity, std::int64_t ranks,
                      std::int64_t redundant) {
  if (ranks <= 1) return 1;
  std::vector<double> load(static_cast<std::size_t>(ranks), 0);
  double total = 0;
  for (const double p : popularity) total += p;
  if (redundant == 0) {
    for (std::size_t i = 0; i < popularity.size(); ++i) load[i % load.size()] += popularity[i];
  } else {
    for (const double copy : with_copies(popularity, redundant)) {
      *std::min_element(load.begin(), load.end()) += copy;
    }
  }
  return *std::max_element(load.begin(), load.end()) * static_cast<double>(ranks) / total;
}

double chance_skew(double load, std::int64_t ranks) {
  if (ranks <= 1 || load <= 0) return 1;
  return 1 + std::sqrt(2 * std::log(static_cast<double>(ranks)) / load);
}

double padded_rows(double rows, double distinct, double tile) {
  if (distinct <= 0) return 0;
  return distinct * tile * std::ceil(rows / distinct / tile);
}

}  // namespace baltoro::plan
