#include "ops/head.h"

#include <bit>

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

// Of HeadArgs and HeadDrawArgs.
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

void head_draw(Backend& backend, const HeadDrawArgs& args) {
  const ArgCheck check("head_draw", -1);
  check_inputs(check, "head_draw", backend, args);
  if (args.rows.empty()) return;
  check.pointer("drawn", args.drawn);
  check.that(args.draws.size() == args.rows.size(), "a draw for each row");
  for (const Draw& draw : args.draws) {
    check.that(draw.temperature >= 0 && draw.part >= 0 && draw.part < 1,
               "a temperature of at least 0 and a random number in [0, 1)");
    check.that(draw.top_k >= 0 && static_cast<std::size_t>(draw.top_k) <= kDrawDepth,
               "a top-k of at most kDrawDepth");
  }
  const TraceZone zone("head", -1);
  backend.head_draw(args);
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
