#include "cli/quantize_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "cli/format.h"

namespace baltoro::cli {
namespace {

using nlohmann::ordered_json;

// The tensors of one part of the model that became one format.
struct Summary {
  std::string component;
  QuantizeAction action;
  std::int64_t num_tensors = 0;
  std::int64_t values = 0;
  std::uint64_t bytes_in = 0;
  std::uint64_t bytes_out = 0;
  QuantizeError error;
  const QuantizedTensor* worst = nullptr;
};

std::vector<Summary> summarize(const std::vector<QuantizedTensor>& tensors) {
  std::vector<Summary> summaries;
  for (const QuantizedTensor& tensor : tensors) {
    auto part = std::find_if(summaries.begin(), summaries.end(), [&](const Summary& summary) {
      return summary.component == tensor.component && summary.action == tensor.action;
    });
    if (part == summaries.end()) {
      summaries.push_back({.component = tensor.component, .action = tensor.action, .error = {}});
      part = summaries.end() - 1;
    }
    ++part->num_tensors;
    part->values += tensor.values;
    part->bytes_in += tensor.bytes_in;
    part->bytes_out += tensor.bytes_out;
    part->error.squares += tensor.error.squares;
    part->error.error_squares += tensor.error.error_squares;
    part->error.largest = std::max(part->error.largest, tensor.error.largest);
    if (part->worst == nullptr || tensor.error.nmse() > part->worst->error.nmse()) {
      part->worst = &tensor;
    }
  }
  return summaries;
}

double share(std::uint64_t part, std::uint64_t whole) {
  return whole > 0 ? 100.0 * static_cast<double>(part) / static_cast<double>(whole) : 0;
}

}  // namespace

void print_plan(const Quantizer& quantizer, const std::string& src, const std::string& dst) {
  const QuantizePlan& plan = quantizer.plan();
  fmt::print("plan          {} -> {}\n", src, dst);
  fmt::print("              {} and {} to quantise: {} -> {} ({:.1f} %)\n",
             counted(plan.shards.size(), "shard"),
             counted(static_cast<std::uint64_t>(plan.num_quantized), "matrix", "matrices"),
             human_bytes(plan.bytes_in), human_bytes(plan.bytes_out),
             share(plan.bytes_out, plan.bytes_in));
  fmt::print("              {} to write, {} free\n", human_bytes(quantizer.bytes_to_write()),
             human_bytes(quantizer.bytes_free()));
}

ordered_json plan_json(const Quantizer& quantizer) {
  const QuantizePlan& plan = quantizer.plan();
  return {{"shards", plan.shards.size()},
          {"matrices", plan.num_quantized},
          {"bytes_in", plan.bytes_in},
          {"bytes_out", plan.bytes_out},
          {"bytes_to_write", quantizer.bytes_to_write()},
          {"bytes_free", quantizer.bytes_free()}};
}

void print_report(const QuantizePlan& plan, const QuantizeReport& report) {
  std::uint64_t kept = plan.bytes_in;
  for (const Summary& part : summarize(report.tensors)) {
    kept -= part.bytes_in;
    fmt::print("{:<13} {}: {}, {} -> {}\n", action_name(part.action), part.component,
               counted(static_cast<std::uint64_t>(part.num_tensors), "matrix", "matrices"),
               human_bytes(part.bytes_in), human_bytes(part.bytes_out));
    fmt::print("              NMSE {:.3g}, largest error {:.3g}; worst NMSE {:.3g}: {}\n",
               part.error.nmse(), part.error.largest, part.worst->error.nmse(), part.worst->name);
  }
  fmt::print("kept          {} as they were\n", human_bytes(kept));
  fmt::print("written       {} B of {} B ({:.1f} %)", with_commas(plan.bytes_out),
             with_commas(plan.bytes_in), share(plan.bytes_out, plan.bytes_in));
  if (report.num_resumed > 0) {
    fmt::print(", {} by an earlier run", counted(report.num_resumed, "shard"));
  }
  fmt::print("\n");
}

ordered_json report_json(const QuantizeReport& report) {
  ordered_json parts = ordered_json::array();
  for (const Summary& part : summarize(report.tensors)) {
    parts.push_back({{"component", part.component},
                     {"format", action_name(part.action)},
                     {"matrices", part.num_tensors},
                     {"values", part.values},
                     {"bytes_in", part.bytes_in},
                     {"bytes_out", part.bytes_out},
                     {"nmse", part.error.nmse()},
                     {"largest_error", part.error.largest},
                     {"worst_nmse", part.worst->error.nmse()},
                     {"worst", part.worst->name}});
  }
  ordered_json tensors = ordered_json::array();
  for (const QuantizedTensor& tensor : report.tensors) {
    tensors.push_back({{"name", tensor.name},
                       {"component", tensor.component},
                       {"format", action_name(tensor.action)},
                       {"values", tensor.values},
                       {"bytes_in", tensor.bytes_in},
                       {"bytes_out", tensor.bytes_out},
                       {"nmse", tensor.error.nmse()},
                       {"largest_error", tensor.error.largest}});
  }
  return {{"resumed_shards", report.num_resumed}, {"parts", parts}, {"tensors", tensors}};
}

}  // namespace baltoro::cli
