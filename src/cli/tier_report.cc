#include "cli/tier_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "cli/format.h"
#include "plan/explain.h"

namespace baltoro::cli {
namespace {

using plan::Placement;

std::vector<const plan::TierSide*> sides(const TierPlan& plan) {
  std::vector<const plan::TierSide*> all{&plan.machine.host};
  if (plan.machine.device) all.insert(all.begin(), &*plan.machine.device);
  return all;
}

std::string status(const TierPlan& plan, const Placement& placement) {
  if (!placement.fits()) {
    return fmt::format("{:.1f} GB too many for the GPU", placement.missing_bytes / 1e9);
  }
  return plan.chosen == placement.place ? "chosen" : "";
}

std::string side_line(const plan::TierSide& side) {
  const plan::Hardware& hardware = side.hardware;
  std::string text = fmt::format("{}: {}B may be taken, {}B of it beside weights", hardware.title,
                                 plan::with_prefix(hardware.memory_bytes.value),
                                 plan::with_prefix(side.working_bytes));
  if (hardware.memory_bandwidth) {
    text += fmt::format("; {}B/s ({}: {})", plan::with_prefix(hardware.memory_bandwidth.value),
                        plan::provenance_name(hardware.memory_bandwidth.provenance),
                        hardware.memory_bandwidth.source);
  }
  return text;
}

// What would turn a missing number, or a bound, into a prediction.
std::string remedies(const TierPlan& plan) {
  std::string out;
  const bool has_device = plan.machine.device.has_value();
  if (has_device && !plan.machine.device->hardware.memory_bandwidth) {
    out += wrapped("rates",
                   "this GPU is not known by its name: `baltoro plan calibrate --device "
                   "cuda` measures it");
  }
  if (!plan.machine.host.hardware.memory_bandwidth) {
    out += wrapped("host", "not measured, for it computes nothing: `baltoro plan tiers` does");
  }
  if (plan.machine.file_bandwidth) return out;
  for (const Placement& p : plan.placements) {
    if (p.file_bytes_per_token == 0) continue;
    out += wrapped("files",
                   fmt::format("{}: {}B a token come from the files, at a rate that is not known",
                               p.name(), plan::with_prefix(p.file_bytes_per_token)));
  }
  return out;
}

}  // namespace

TierPlan tier_plan(const plan::PlanModel& model, plan::TierMachine machine, ExpertPlace experts,
                   std::int64_t context) {
  TierPlan result{std::move(machine), context, {}, {}};
  result.placements = plan::placements(model, result.machine, context);
  result.chosen = plan::choose_place(model, result.machine, experts);
  return result;
}

const char* result_name(const TierPlan& plan) {
  using Kind = plan::Efficiency::Kind;
  const auto is = [&](Kind kind) {
    return [kind](const plan::TierSide* side) { return side->efficiency.kind == kind; };
  };
  if (std::ranges::all_of(sides(plan), is(Kind::kMeasured))) return "prediction";
  return std::ranges::any_of(sides(plan), is(Kind::kTypical)) ? "estimate" : "bound";
}

Table tier_table(const TierPlan& plan) {
  constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
  Table table;
  const char* rates = result_name(plan);
  table.columns = {{"place", "weights", "", "", "", 1},
                   {"device_bytes", "GPU", "GB", "B", "formula", 1e-9},
                   {"host_bytes", "memory", "GB", "B", "formula", 1e-9},
                   {"file_bytes", "files", "GB", "B", "formula", 1e-9},
                   {"file_bytes_per_token", "read", "GB/token", "B", "formula", 1e-9},
                   {"tokens_per_second", "tok/s", rates, "1/s", rates, 1},
                   {"bound", "limit", "", "", "", 1},
                   {"status", "", "", "", "", 1}};
  for (const Placement& p : plan.placements) {
    table.rows.push_back({p.name(), p.device_bytes, p.host_bytes, p.file_bytes,
                          p.file_bytes_per_token, p.known ? 1 / p.seconds() : kNone, p.bound(),
                          status(plan, p)});
  }
  return table;
}

std::string tier_text(const TierPlan& plan, const std::string& model) {
  std::string out =
      wrapped("plan", fmt::format("{}: one sequence that decodes behind {} tokens ({})", model,
                                  with_commas(static_cast<std::uint64_t>(plan.context)),
                                  result_name(plan)));
  if (plan.machine.device) out += wrapped("GPU", side_line(*plan.machine.device));
  out += wrapped("host", side_line(plan.machine.host));
  return out + table_text(tier_table(plan)) + remedies(plan);
}

}  // namespace baltoro::cli
