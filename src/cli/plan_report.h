// The result of `baltoro plan` as text of at most 100 columns and as JSON.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "plan/capacity.h"
#include "plan/explain.h"
#include "plan/knees.h"
#include "plan/moe_line.h"
#include "plan/offload.h"
#include "plan/recommend.h"
#include "plan/totals.h"

namespace baltoro::cli {

struct PlanResult {
  plan::Scenario scenario;
  plan::Capacity capacity;
  std::optional<plan::FewestDevices> fewest;
  // With experts on the host there is an offload and no step.
  std::optional<plan::Offload> offload;
  std::optional<plan::Totals> totals;
  std::optional<plan::MoeLine> moe;
  std::vector<plan::Knee> knees;
  std::vector<plan::Recommendation> recommendations;
};
PlanResult compute_plan(const plan::Scenario& scenario);

std::string plan_text(const PlanResult& result);
std::string explanation_text(const plan::Explanation& explanation);
constexpr const char* kPlanSchema = "baltoro.plan";
constexpr int kPlanSchemaVersion = 1;
// Of that schema; each leaf is {"value", "unit", "provenance"}.
nlohmann::ordered_json plan_json(const PlanResult& result);
nlohmann::ordered_json explanation_json(const plan::Explanation& explanation);

// What the sums of a table of pipeline stages hide; empty where there is one stage.
std::string stage_note(const plan::Scenario& scenario);
// The component table alone.
std::string step_table(const plan::Step& step);

}  // namespace baltoro::cli
