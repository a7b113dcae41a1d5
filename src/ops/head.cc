#include "ops/head.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <vector>

#include "core/error.h"
#include "core/trace.h"
#include "ops/arg_check.h"
#include "ops/linear.h"

namespace baltoro {
namespace {

// Whether a value is an infinity or NaN, as a bit: without a branch, so that the compiler makes
// vectors of loops over it.
std::uint32_t is_bad(float value) {
  constexpr std::uint32_t kExponent = 0x7f800000;
  return (std::bit_cast<std::uint32_t>(value) & kExponent) == kExponent ? 1u : 0u;
}

void check_logits(const HeadArgs& args) {
  const auto vocab = static_cast<std::size_t>(args.weight.rows);
  for (std::size_t i = 0; i < args.rows.size(); ++i) {
    std::uint32_t bad = 0;
    for (const float value : std::span(args.logits + i * vocab, vocab)) bad |= is_bad(value);
    args.bad[i] = static_cast<std::int32_t>(bad);
  }
}

// Of HeadArgs and HeadTopArgs.
template <typename Args>
void check_inputs(const ArgCheck& check, const char* op, const Backend& backend, const Args& args) {
  check.view("x", args.x, args.x.rows(), args.x.cols(), backend.activation_dtype());
  check.weight("weight", args.weight, args.weight.rows, args.x.cols());
  for (const std::int32_t row : args.rows) {
    BALTORO_CHECK(row >= 0 && row < args.x.rows(), "{}: row {} of a batch of {}", op, row,
                  args.x.rows());
  }
}

}  // namespace

void head(Backend& backend, const HeadArgs& args) {
  const ArgCheck check("head", -1);
  check_inputs(check, "head", backend, args);
  if (!args.rows.empty()) check.pointer("logits", args.logits);
  const TraceZone zone("head", -1);
  backend.head(args);
  // A device has checked them on their way.
  if (args.bad != nullptr && backend.uses_host_memory()) check_logits(args);
}

void head_top(Backend& backend, const HeadTopArgs& args) {
  const ArgCheck check("head_top", -1);
  check_inputs(check, "head_top", backend, args);
  if (args.rows.empty()) return;
  check.pointer("top", args.top);
  check.pointer("bad", args.bad);
  check.that(args.temperatures.size() == args.rows.size(), "a temperature for each row");
  const TraceZone zone("head", -1);
  backend.head_top(args);
}

void find_top(std::span<const float> logits, const std::uint8_t* banned, float temperature,
              TopRow& top) {
  std::vector<std::int32_t> order;
  order.reserve(logits.size());
  for (std::size_t i = 0; i < logits.size(); ++i) {
    if (banned == nullptr || banned[i] == 0) order.push_back(static_cast<std::int32_t>(i));
  }
  const auto logit = [&](std::int32_t id) { return logits[static_cast<std::size_t>(id)]; };
  const std::size_t count = std::min(kTopLogits, order.size());
  std::partial_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(count), order.end(),
                    [&](std::int32_t a, std::int32_t b) {
                      return logit(a) > logit(b) || (logit(a) == logit(b) && a < b);
                    });
  top.count = static_cast<std::int32_t>(count);
  top.whole = count == order.size() ? 1 : 0;
  top.total = top.tempered_total = 0;
  for (std::size_t i = 0; i < count; ++i) {
    top.ids[i] = order[i];
    top.logits[i] = logit(order[i]);
  }
  for (const std::int32_t id : order) {
    const double below = static_cast<double>(logit(id)) - static_cast<double>(top.logits[0]);
    top.total += std::exp(below);
    top.tempered_total += std::exp(below / static_cast<double>(temperature));
  }
}

Cost head_cost(std::int64_t rows, const WeightView& weight, DType activation_dtype) {
  Cost cost = linear_cost(rows, weight, activation_dtype);
  const double row_bytes =
      static_cast<double>(weight.cols) * static_cast<double>(dtype_bytes(activation_dtype)) +
      static_cast<double>(weight.rows) * static_cast<double>(sizeof(float));
  cost.activation_bytes = static_cast<double>(rows) * row_bytes;
  return cost;
}

}  // namespace baltoro
