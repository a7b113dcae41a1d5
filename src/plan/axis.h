// Axes of a sweep: what changes from one point to the next.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "plan/step.h"
#include "plan/variants.h"

namespace baltoro::plan {

// What a point of each axis has changed so far. What depends on several axes is settled at the end,
// by settle().
struct Trial {
  Scenario scenario;
  // That the deployment has: `rest`, tp or dp, takes what the other two leave. 0: as many as the
  // layout says.
  std::int64_t devices = 0;
  std::int64_t Layout::*rest = &Layout::dp;
  double alpha = 0;  // 0: the model's own
  LatentMode mode = LatentMode::kAcc;
};
// Applies alpha in its mode, gives left over devices to `rest`, and checks everything. Throws
// Error{kUsage} naming each broken rule and the nearest valid value.
void settle(Trial& trial);

// What an axis is about, which decides the columns that a table shows first.
enum class AxisTopic : std::uint8_t { kAttention, kExperts, kDeployment };

struct AxisPoint {
  std::string label;
  // Throws Error{kUsage} where the model has no such thing.
  std::function<void(Trial&)> apply;
};
struct Axis {
  std::string name;
  AxisTopic topic = AxisTopic::kDeployment;
  std::vector<AxisPoint> points;
};

// "batch=1..4096:log", "tp=1,2,4,8", "split=512:64,448:128", "alpha=1..4", "mode=eff|acc|k3",
// "kv=mla:512+64|unified:576|mqa:576|gqa:2x144", "layout=tp=8|tp=8,dcp=8", "dtype=attn=bf16|attn=int8",
// and every size of apply_overrides. Values stand between | or commas; FIRST..LAST counts by 1,
// FIRST..LAST:N by N and :log doubles. Throws Error{kUsage} for an unknown axis (with the nearest
// one), an empty range, more than kMostPoints points, and what is no value of the axis.
// `others`: names of axes that the caller makes, for that message.
Axis parse_axis(std::string_view text, const std::vector<std::string>& others = {});
// "A,B,C", or "A|B|C" where there is a | or values have commas. Throws Error{kUsage} for a value that
// is empty or stands twice.
std::vector<std::string> split_axis_values(std::string_view name, std::string_view text,
                                           bool commas_inside);
constexpr std::size_t kMostPoints = 256;

// For help and messages: without the sizes.
std::vector<std::string> axis_names();

}  // namespace baltoro::plan
