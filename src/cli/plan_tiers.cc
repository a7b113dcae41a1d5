// `baltoro plan tiers`: a model on one GPU and its host, or on the host alone: where its bytes can
// be, and how fast a token is generated from there.
#include <fmt/format.h>

#include <memory>
#include <optional>
#include <string>

#include "cli/arguments.h"
#include "cli/command.h"
#include "cli/format.h"
#include "cli/plan_commands.h"
#include "cli/plan_options.h"
#include "cli/tier_report.h"
#include "core/error.h"
#include "measure/tier_machine.h"
#include "plan/capacity.h"
#include "plan/inventory.h"
#include "plan/workload.h"

namespace baltoro::cli {
namespace {

constexpr int kTiersSchema = 1;

struct TiersOptions {
  PlanOptions plan;
  EngineOptions engine;
  bool json = false;
  bool csv = false;
};

// One device of --hw, and a host with its DRAM: bytes a second of both, nothing beside them but for
// --eff typical.
plan::TierMachine described_machine(const TiersOptions& options, const plan::PlanModel& model,
                                    std::int64_t context) {
  const PlanMachine described = plan_machine(options.plan);
  plan::TierMachine machine;
  plan::TierSide& device = machine.device.emplace();
  device.hardware = described.hardware;
  device.efficiency = described.efficiency;
  if (options.engine.device_memory) {
    device.hardware.memory_bytes = {static_cast<double>(*options.engine.device_memory),
                                    plan::Provenance::kUser, "--device-memory"};
  }
  device.working_bytes = (1 - plan::kMemoryShare) * device.hardware.memory_bytes.value +
                         plan::state_bytes_per_sequence(model) +
                         plan::conv_bytes_per_sequence(model) +
                         static_cast<double>(context) * plan::cache_bytes_per_token(model);
  if (!options.engine.memory_limit) {
    fail(ErrorCode::kUsage, "--hw {} is a device without its host; add --memory 128GB",
         options.plan.hardware);
  }
  plan::Hardware& host = machine.host.hardware;
  host.name = host.title = "its host";
  host.memory_bytes = {static_cast<double>(*options.engine.memory_limit), plan::Provenance::kUser,
                       "--memory"};
  host.memory_bandwidth = described.hardware.dram_bandwidth;
  // Of one row, memory is the bound of any processor.
  host.bf16_flops = plan::preset_hardware("epyc-9005").hardware.bf16_flops;
  return machine;
}

int run(const TiersOptions& options) {
  if (options.plan.model.empty()) fail(ErrorCode::kUsage, "plan tiers needs a MODEL");
  refuse_together(options.json, "--json", options.csv, "--csv");
  const bool described = !options.plan.hardware.empty();
  refuse_together(described, "--hw", options.engine.device != "cpu", "--device");
  const plan::PlanModel model = plan_model(options.plan.model, options.plan);
  plan::check_model(model);
  const std::int64_t context = plan::parse_length("--ctx", options.plan.context, 1);
  plan::TierMachine machine = described ? described_machine(options, model, context)
                                        : tier_machine(options.engine, model.config);
  if (!options.plan.nvme.empty()) {
    machine.file_bandwidth = {static_cast<double>(parse_bytes("--nvme", options.plan.nvme)),
                              plan::Provenance::kUser, "--nvme"};
  }
  const TierPlan result = tier_plan(model, std::move(machine), options.engine.experts, context);
  if (options.json) {
    print_json({{"schema", "baltoro.plan.tiers"},
                {"version", kTiersSchema},
                {"model", model.name},
                {"context", context},
                {"result", result_name(result)},
                {"placements", table_json(tier_table(result))}});
  } else if (options.csv) {
    fmt::print("{}", table_csv(tier_table(result)));
  } else {
    fmt::print("{}", tier_text(result, model.name));
  }
  return result.chosen ? kOk : kDoesNotFit;
}

}  // namespace

Command add_plan_tiers(CLI::App& plan) {
  auto options = std::make_shared<TiersOptions>();
  options->plan.hardware.clear();
  options->plan.efficiency = "datasheet";
  options->plan.context = "4k";
  CLI::App* app = plan.add_subcommand("tiers", "One GPU and its host: where the weights can be");
  app->add_option("MODEL", options->plan.model, "Preset, model directory or config.json");
  app->add_option("--device", options->engine.device, "Of this machine: cpu, cuda, cuda:N")
      ->capture_default_str();
  add_device_memory(*app, options->engine.device_memory);
  add_memory(*app, options->engine.memory_limit);
  for (const PlanOption& option : plan_options()) {
    const std::string name = long_name(option.flags);
    if (name != "--hw" && name != "--nvme" && name != "--ctx" && name != "--eff" &&
        name != "--dtype" && name != "--set") {
      continue;
    }
    app->add_option(option.flags, options->plan.*option.field, option.description)
        ->type_name(option.type)
        ->capture_default_str()
        ->check(not_empty);
  }
  app->add_flag("--json", options->json, "Print one JSON document");
  app->add_flag("--csv", options->csv, "Print comma-separated values");
  app->footer(
      "Without --hw it is this machine: rates are those of `plan calibrate` where it has run (of "
      "the\n"
      "device and of the CPU), else a bound by the name of the GPU and by the bandwidth of memory, "
      "read\n"
      "on the spot. `run --device cuda --stats` prints the same before it loads. The exit status "
      "is "
      "6\n"
      "where nothing fits on the GPU.\n"
      "Examples:\n"
      "  baltoro plan tiers models/story --device cuda\n"
      "  baltoro plan tiers kimi-linear --hw rtx4090 --memory 128GB\n"
      "  baltoro plan tiers k3 --hw h200 --memory 512GB --nvme 7GB\n"
      "  baltoro plan tiers MODEL --memory 24GB --nvme 3GB");
  return {app, [options] { return run(*options); }};
}

}  // namespace baltoro::cli
