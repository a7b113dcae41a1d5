// Options of `plan` and of its subcommands: a model on a machine in a layout, and what is asked of
// it.
#pragma once

#include <CLI/App.hpp>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "plan/step.h"

namespace baltoro::cli {

// As they were given; empty and 0 where they were not.
struct PlanOptions {
  std::string model;
  std::string overrides;
  std::string formats;
  std::string hardware = "8xb300";
  std::string dram;
  std::string nvme;
  std::string nic;
  std::string layout;
  std::string phase = "decode";
  std::string batch = "1";
  std::string context = "8k";
  std::string input;
  std::string output = "1k";
  std::string prompts = "1";
  std::string chunk = "16k";
  std::string cached = "0";
  std::string speculation;
  std::string routing = "uniform";
  std::string dedup = "flat";
  std::string overlap = "none";
  std::string efficiency = "typical";
};

// Those that `plan` and its subcommands have in common, in the order of their help.
struct PlanOption {
  const char* flags;
  const char* type;
  std::string PlanOptions::*field;
  const char* description;
};
const std::vector<PlanOption>& plan_options();
// Adds them all; a value that is empty is an error.
void add_plan_options(CLI::App& app, PlanOptions& options);
// Puts those that were given to `app` in place of those of `options`.
void take_given(const CLI::App& app, const PlanOptions& given, PlanOptions& options);

// The model and what differs from the defaults, by long name: the "options" of `plan --json`.
nlohmann::ordered_json plan_options_json(const PlanOptions& options);
// A file that `plan --json` wrote: any JSON file with a schema of plan.
bool is_saved_plan(const std::string& path);
struct SavedPlan {
  PlanOptions options;
  double step_seconds = 0;  // 0: none
};
// Throws Error{kBadModel} for another schema, version or option, with what to type.
SavedPlan read_saved_plan(const std::string& path);

// The preset of that name, or a directory or config.json that the engine reads; with --set and
// --dtype. Throws Error{kUsage} for a name that is neither, and as load_config.
plan::PlanModel plan_model(const std::string& name, const PlanOptions& options);

// Everything, checked. Without --layout the devices of --hw are tensor ranks, or, where they do not
// divide the heads, have their own sequences and share the experts. Throws Error{kUsage}.
plan::Scenario plan_scenario(const PlanOptions& options);
// The machine and its rates alone, and how many devices --hw names (0: not said). "measured" is this
// machine by its newest calibration.
struct PlanMachine {
  plan::Hardware hardware;
  plan::Efficiency efficiency;
  std::int64_t devices = 0;
};
PlanMachine plan_machine(const PlanOptions& options);
// That of the options on this number of devices (0: as many as the layout says), or the default
// where they have none. Throws Error{kUsage} where it is of another number.
plan::Layout plan_layout(const PlanOptions& options, const plan::PlanModel& model,
                         std::int64_t devices);

}  // namespace baltoro::cli
