// Where a model can be on a machine, and how fast a token is generated from there.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "baltoro/engine.h"
#include "cli/table.h"
#include "plan/tiers.h"

namespace baltoro::cli {

struct TierPlan {
  plan::TierMachine machine;
  std::int64_t context = 0;  // tokens in the cache
  std::vector<plan::Placement> placements;
  std::optional<plan::Place> chosen;  // by the engine; nothing where it refuses
};

// Throws as plan::placements.
TierPlan tier_plan(const plan::PlanModel& model, plan::TierMachine machine, ExpertPlace experts,
                   std::int64_t context);

// "prediction" where all rates are of calibrations, "estimate" where some are typical ones, else
// "bound".
const char* result_name(const TierPlan& plan);
// One row a placement; its tokens a second are no number where a rate is missing.
Table tier_table(const TierPlan& plan);
// The machine, the table, and what is missing.
std::string tier_text(const TierPlan& plan, const std::string& model);

}  // namespace baltoro::cli
