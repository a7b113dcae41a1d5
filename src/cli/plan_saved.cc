// The options of a plan inside of its JSON, and back.
#include <filesystem>

#include "cli/arguments.h"
#include "cli/format.h"
#include "cli/plan_options.h"
#include "cli/plan_report.h"
#include "core/error.h"
#include "io/json_file.h"
#include "plan/key_value.h"

namespace baltoro::cli {
namespace {

constexpr const char* kModelKey = "MODEL";
constexpr const char* kRemedy = "write it again with `baltoro plan MODEL ... --json`";

void set_saved(PlanOptions& options, const std::string& path, const std::string& name,
               const nlohmann::json& value) {
  if (!value.is_string()) fail(ErrorCode::kBadModel, "{}: {} must be a text", path, name);
  if (name == kModelKey) {
    options.model = value.get<std::string>();
    return;
  }
  for (const PlanOption& option : plan_options()) {
    if (name != long_name(option.flags)) continue;
    options.*option.field = value.get<std::string>();
    return;
  }
  fail(ErrorCode::kBadModel, "{}: {} is no option of plan; {}", path, name, kRemedy);
}

}  // namespace

nlohmann::ordered_json plan_options_json(const PlanOptions& options) {
  const PlanOptions defaults;
  nlohmann::ordered_json document = {{kModelKey, options.model}};
  for (const PlanOption& option : plan_options()) {
    if (options.*option.field == defaults.*option.field) continue;
    document[long_name(option.flags)] = options.*option.field;
  }
  return document;
}

bool is_saved_plan(const std::string& path) {
  std::error_code ignored;
  if (!path.ends_with(".json") || !std::filesystem::is_regular_file(path, ignored)) return false;
  const JsonDocument parsed = parse_json(read_text(path), path);
  const nlohmann::json& document = *parsed;
  if (!document.is_object() || !document.contains("schema")) return false;
  const nlohmann::json& schema = document["schema"];
  return schema.is_string() && schema.get<std::string>().starts_with(kPlanSchema);
}

SavedPlan read_saved_plan(const std::string& path) {
  const JsonDocument parsed = parse_json(read_text(path), path);
  const nlohmann::json& document = *parsed;
  const std::string schema = document.at("schema").get<std::string>();
  if (schema != kPlanSchema) {
    fail(ErrorCode::kBadModel,
         "{}: its schema is {}; plan compare takes {}, which `baltoro plan "
         "MODEL --json` writes",
         path, schema, kPlanSchema);
  }
  const nlohmann::json version = document.value("version", nlohmann::json());
  if (version != kPlanSchemaVersion) {
    fail(ErrorCode::kBadModel, "{}: version {} of {}, and this baltoro reads version {}; {}", path,
         version.dump(), schema, kPlanSchemaVersion, kRemedy);
  }
  const nlohmann::json options = document.value("options", nlohmann::json());
  if (!options.is_object() || !options.contains(kModelKey)) {
    fail(ErrorCode::kBadModel, "{}: without the options that it was made with; {}", path, kRemedy);
  }
  SavedPlan saved;
  for (const auto& [name, value] : options.items()) set_saved(saved.options, path, name, value);
  const nlohmann::json::json_pointer step("/step/total/seconds/value");
  if (document.contains(step) && document[step].is_number()) saved.step_seconds = document[step];
  return saved;
}

}  // namespace baltoro::cli
