#include "plan/sweep.h"

#include <algorithm>

#include "core/error.h"

namespace baltoro::plan {
namespace {

void check_axes(const std::vector<Axis>& axes) {
  if (axes.empty()) fail(ErrorCode::kUsage, "a sweep needs an axis: batch=1..64:log");
  double points = 1;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    points *= static_cast<double>(axes[i].points.size());
    for (std::size_t j = 0; j < i; ++j) {
      if (axes[i].name == axes[j].name) {
        fail(ErrorCode::kUsage, "axis {} stands twice; join its values with commas", axes[i].name);
      }
    }
  }
  constexpr double kMost = 4096;
  if (points > kMost) {
    fail(ErrorCode::kUsage,
         "{:.0f} points in a sweep; at most {:.0f}: leave out an axis, or "
         "double with :log",
         points, kMost);
  }
}

SweepPoint evaluate_point(const std::vector<Axis>& axes, Trial trial,
                          const std::vector<std::size_t>& index) {
  SweepPoint point;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    point.labels.push_back(axes[i].points[index[i]].label);
  }
  try {
    for (std::size_t i = 0; i < axes.size(); ++i) axes[i].points[index[i]].apply(trial);
    settle(trial);
    point.evaluated = evaluate(trial.scenario);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kUsage) throw;
    point.reason = error.what();
  }
  return point;
}

// The next combination; false after the last.
bool next_index(const std::vector<Axis>& axes, std::vector<std::size_t>& index) {
  for (std::size_t i = axes.size(); i-- > 0;) {
    if (++index[i] < axes[i].points.size()) return true;
    index[i] = 0;
  }
  return false;
}

}  // namespace

Sweep run_sweep(const Scenario& scenario, std::int64_t devices, std::vector<Axis> axes) {
  check_axes(axes);
  const auto has = [&](const char* name) {
    return std::any_of(axes.begin(), axes.end(), [&](const Axis& a) { return a.name == name; });
  };
  Trial trial;
  trial.scenario = scenario;
  trial.devices = (has("tp") || has("pp")) && !has("layout") ? devices : 0;
  if (has("dp") || !has("tp")) trial.rest = &Layout::tp;
  if (has("tp") && has("dp")) trial.devices = 0;
  Sweep sweep;
  sweep.axes = std::move(axes);
  std::vector<std::size_t> index(sweep.axes.size(), 0);
  do {
    sweep.points.push_back(evaluate_point(sweep.axes, trial, index));
  } while (next_index(sweep.axes, index));
  const bool possible = std::any_of(sweep.points.begin(), sweep.points.end(),
                                    [](const SweepPoint& p) { return p.evaluated.has_value(); });
  if (!possible) fail(ErrorCode::kUsage, "{}", sweep.points.front().reason);
  return sweep;
}

std::vector<std::string> columns_of(const std::vector<Axis>& axes) {
  const auto about = [&](AxisTopic topic) {
    return std::any_of(axes.begin(), axes.end(), [&](const Axis& a) { return a.topic == topic; });
  };
  std::vector<std::string> keys;
  if (about(AxisTopic::kAttention)) {
    keys = {"cache", "kv_q", "core", "core_intensity", "pair", "rank"};
  }
  if (about(AxisTopic::kExperts)) {
    for (const char* key : {"latent", "experts", "per_token", "routed", "projections", "values",
                            "layer_1", "layer_64", "layer_all", "sparsity"}) {
      keys.emplace_back(key);
    }
  }
  if (keys.empty()) {
    keys = {"step", "user", "device", "flops", "hbm", "net", "intensity", "comm", "max_batch"};
  } else {
    keys.emplace_back("step");
    if (!about(AxisTopic::kExperts)) keys.emplace_back("ttft");
  }
  return keys;
}

}  // namespace baltoro::plan
