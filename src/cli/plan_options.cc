#include "cli/plan_options.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <numeric>

#include "cli/arguments.h"
#include "cli/format.h"
#include "cli/plan_config_keys.h"
#include "core/error.h"
#include "core/suggest.h"
#include "io/json_file.h"
#include "measure/calibrate.h"
#include "measure/machine.h"
#include "model/config.h"
#include "plan/key_value.h"
#include "plan/measured.h"

namespace baltoro::cli {
namespace {

namespace fs = std::filesystem;

// {"base": "h200", "name": "mine", "memory_bandwidth": 4.0e12}: numbers of plan::hardware_keys over
// those of the base.
plan::Hardware parse_hardware(const std::string& path) {
  const JsonDocument parsed = parse_json(read_text(path), path);
  const nlohmann::json& document = *parsed;
  if (!document.is_object()) fail(ErrorCode::kUsage, "{}: must be one JSON object", path);
  plan::Hardware hardware;
  hardware.name = hardware.title = fs::path(path).stem().string();
  if (document.contains("base")) {
    if (!document["base"].is_string()) fail(ErrorCode::kUsage, "{}: base must be a text", path);
    hardware = plan::preset_hardware(document["base"].get<std::string>()).hardware;
  }
  for (const auto& [key, value] : document.items()) {
    if (key == "base") continue;
    if (key == "name") {
      if (!value.is_string()) fail(ErrorCode::kUsage, "{}: name must be a text", path);
      hardware.name = hardware.title = value.get<std::string>();
      continue;
    }
    if (!value.is_number()) fail(ErrorCode::kUsage, "{}: {} must be a number", path, key);
    plan::set_hardware(hardware, key, value.get<double>(), plan::Provenance::kUser, path);
  }
  for (plan::Quantity plan::Hardware::*field :
       {&plan::Hardware::memory_bytes, &plan::Hardware::memory_bandwidth,
        &plan::Hardware::bf16_flops}) {
    if (hardware.*field) continue;
    fail(ErrorCode::kUsage,
         "{}: memory_bytes, memory_bandwidth and bf16_flops must be above 0; or name a \"base\"",
         path);
  }
  return hardware;
}

// `read()`, whose errors are those of a file: exit status 3.
template <typename Read>
auto from_file(const std::string& path, const std::string& what, const Read& read) {
  std::error_code ignored;
  if (!fs::is_regular_file(path, ignored)) {
    fail(ErrorCode::kBadModel, "{}: no such file; {}", path, what);
  }
  try {
    return read();
  } catch (const Error& error) {
    fail(ErrorCode::kBadModel, "{}", error.what());
  }
}

bool is_file(const std::string& text) {
  std::error_code ignored;
  return text.ends_with(".json") || fs::is_regular_file(text, ignored);
}

plan::Routing read_routing(const std::string& text) {
  constexpr std::string_view kHistogram = "hist:";
  if (!text.starts_with(kHistogram)) return plan::parse_routing(text);
  const std::string path = text.substr(kHistogram.size());
  if (path.empty()) {
    fail(ErrorCode::kUsage, "--routing {} names no file; the form is hist:FILE", text);
  }
  return from_file(path, "--routing hist:FILE holds one count an expert",
                   [&] { return plan::histogram_routing(read_text(path), path); });
}

constexpr const char* kMeasured = "measured";

// This machine, by its newest calibration.
PlanMachine measured_machine(const std::string& efficiency) {
  const std::unique_ptr<Backend> backend = calibration_backend({});
  const plan::CalibrationKey now = calibration_key(*backend);
  const auto calibration = std::make_shared<const plan::Calibration>(
      plan::newest_calibration(plan::default_calibration_path(now).parent_path(), now));
  PlanMachine machine;
  machine.devices = 1;
  machine.hardware =
      plan::measured_hardware(*calibration, static_cast<double>(describe_machine().memory_bytes));
  // The default of --eff, and its word for what calibrations give.
  const bool own = efficiency == PlanOptions().efficiency || efficiency == kMeasured;
  machine.efficiency = own ? plan::measured_efficiency(calibration)
                           : plan::parse_efficiency(efficiency, machine.hardware);
  return machine;
}

void read_speculation(plan::Workload& workload, const std::string& text) {
  if (text.empty()) return;
  for (const auto& [key, value] : plan::split_key_values("--spec", text)) {
    if (key == "k") {
      workload.draft = plan::parse_count("--spec k", value, 0, 4096);
    } else if (key == "accept") {
      workload.accepted = plan::parse_number("--spec accept", value, 0);
    } else {
      plan::fail_unknown("--spec ", key, "key", {"k", "accept"});
    }
  }
}

plan::Workload read_workload(const PlanOptions& options) {
  plan::Workload workload;
  workload.phase = plan::parse_phase(options.phase);
  workload.batch = plan::parse_length("--batch", options.batch, 1);
  workload.context = plan::parse_length("--ctx", options.context, 1);
  if (!options.input.empty()) workload.input = plan::parse_length("--isl", options.input, 1);
  workload.output = plan::parse_length("--osl", options.output, 1);
  workload.prompts = plan::parse_length("--prompts", options.prompts, 1);
  workload.chunk = plan::parse_length("--chunk", options.chunk);
  workload.cached = plan::parse_length("--cached", options.cached);
  read_speculation(workload, options.speculation);
  workload.routing = read_routing(options.routing);
  workload.dedup = plan::parse_dedup(options.dedup);
  workload.overlap = plan::parse_overlap(options.overlap);
  return workload;
}

}  // namespace

const std::vector<PlanOption>& plan_options() {
  static const std::vector<PlanOption> kOptions = {
      {"--set", "KEY=N,...", &PlanOptions::overrides,
       "Sizes to change, m=4096,K=8: symbols of docs/cost-model.md or keys of config.json"},
      {"--dtype", "PART=F,...", &PlanOptions::formats,
       "Formats to change, routed=mxfp4,kv=fp8; weights=int8 for all but the experts"},
      {"--hw", "HW", &PlanOptions::hardware,
       "Machine: 8xh200, gb200, rtx4090, ..., a JSON file with the numbers of one device, or "
       "measured: this one, as plan calibrate found it"},
      {"--nic", "SIZE", &PlanOptions::nic, "Network of a device out of its domain, a second, 25GB"},
      {"--dram", "SIZE", &PlanOptions::dram, "DRAM behind the devices, 128GB"},
      {"--nvme", "SIZE", &PlanOptions::nvme, "Read bandwidth of storage a second, 7GB"},
      {"--eff", "KIND", &PlanOptions::efficiency,
       "datasheet (a bound) or typical (shares that public kernels reach)"},
      {"--layout", "KEY=V,...", &PlanOptions::layout,
       "tp=8,ep=8,dp=1,pp=1,dcp=1,sp=on,attn=tp|dp,replicate=none|latent|latent+small,"
       "redundant=N,experts=gpu|host; default: all devices as tensor ranks, or as data "
       "and expert ranks where they do not divide the heads"},
      {"--phase", "PHASE", &PlanOptions::phase, "decode, prefill, mixed or verify"},
      {"-b,--batch", "N", &PlanOptions::batch, "Sequences that decode, all devices together"},
      {"--ctx", "N", &PlanOptions::context, "Tokens in the cache of each (8k is 8192)"},
      {"--isl", "N", &PlanOptions::input, "Tokens of a prompt (default: --ctx)"},
      {"--osl", "N", &PlanOptions::output, "Tokens generated after it"},
      {"--prompts", "N", &PlanOptions::prompts, "Prompts read together"},
      {"--chunk", "N", &PlanOptions::chunk, "Tokens of a prompt that one step reads (0: all)"},
      {"--cached", "N", &PlanOptions::cached, "Tokens of a prompt that are in the cache"},
      {"--spec", "k=7,accept=3.4", &PlanOptions::speculation,
       "Speculation for --phase verify: tokens proposed, and kept a step"},
      {"--routing", "R", &PlanOptions::routing, "uniform, zipf:S or hist:FILE (a count an expert)"},
      {"--a2a", "FORM", &PlanOptions::dedup, "Copies of a token: flat (an expert), rank or node"},
      {"--overlap", "KIND", &PlanOptions::overlap,
       "none, shared, tbo (two batches), fused or a fraction"}};
  return kOptions;
}

void add_plan_options(CLI::App& app, PlanOptions& options) {
  for (const PlanOption& option : plan_options()) {
    app.add_option(option.flags, options.*option.field, option.description)
        ->type_name(option.type)
        ->capture_default_str()
        ->check(not_empty);
  }
}

void take_given(const CLI::App& app, const PlanOptions& given, PlanOptions& options) {
  for (const PlanOption& option : plan_options()) {
    if (app.get_option(long_name(option.flags))->count() == 0) continue;
    options.*option.field = given.*option.field;
  }
}

plan::PlanModel plan_model(const std::string& name, const PlanOptions& options) {
  std::error_code ignored;
  const std::vector<std::string> presets = plan::preset_names();
  plan::PlanModel model;
  if (std::find(presets.begin(), presets.end(), name) != presets.end()) {
    model = plan::preset_model(name);
  } else if (fs::exists(name, ignored)) {
    const fs::path path = fs::absolute(name).lexically_normal();
    const fs::path dir = path.has_filename() && path.filename() != "config.json"
                             ? path
                             : path.parent_path();  // of a file, or of what ends in a slash
    model = plan::model_from_config(load_config(name), dir.filename().string());
    check_shape_keys(name);
  } else {
    const std::string similar = nearest(name, presets);
    fail(ErrorCode::kUsage, "{}: no such file, and no preset{}; presets: {}", name,
         similar.empty() ? "" : fmt::format(", did you mean {}?", similar),
         fmt::join(presets, ", "));
  }
  if (!options.overrides.empty()) {
    plan::apply_overrides(model, options.overrides);
    model.name += fmt::format("[{}]", options.overrides);
  }
  if (!options.formats.empty()) plan::apply_formats(model.formats, options.formats);
  return model;
}

PlanMachine plan_machine(const PlanOptions& options) {
  PlanMachine machine;
  if (options.hardware.ends_with(std::string("x") + kMeasured)) {
    fail(ErrorCode::kUsage, "--hw {}: measured is one device; the rule is --hw {}",
         options.hardware, kMeasured);
  }
  if (options.hardware == kMeasured) {
    machine = measured_machine(options.efficiency);
  } else if (is_file(options.hardware)) {
    machine.hardware =
        from_file(options.hardware,
                  "--hw takes COUNTxNAME or a JSON file of one device, whose number --layout gives",
                  [&] { return parse_hardware(options.hardware); });
  } else {
    const plan::HardwareChoice choice = plan::preset_hardware(options.hardware);
    machine.hardware = choice.hardware;
    machine.devices = choice.devices;
  }
  if (options.hardware != kMeasured) {
    machine.efficiency = plan::parse_efficiency(options.efficiency, machine.hardware);
  }
  const auto set = [&](const char* option, const std::string& text, const char* key) {
    if (text.empty()) return;
    const std::uint64_t bytes = parse_bytes(option, text);
    constexpr std::uint64_t kLeast = 1'000'000;  // less is a unit that was forgotten
    if (bytes < kLeast) {
      fail(ErrorCode::kUsage, "{} is {}, which is {} bytes; it must be at least 1MB, such as 25GB",
           option, text, bytes);
    }
    plan::set_hardware(machine.hardware, key, static_cast<double>(bytes), plan::Provenance::kUser,
                       option);
  };
  set("--nic", options.nic, "scale_out_bandwidth");
  set("--dram", options.dram, "dram_bytes");
  set("--nvme", options.nvme, "nvme_bandwidth");
  return machine;
}

namespace {

// All devices as tensor ranks, or, where they do not divide the heads, with their own sequences.
plan::Layout default_layout(const plan::PlanModel& model, std::int64_t devices) {
  plan::Layout layout;
  const auto divides = [&](std::int64_t heads) { return heads == 0 || heads % devices == 0; };
  if (divides(model.config.kda.num_heads) && divides(model.config.mla.num_heads)) {
    layout.tp = devices;
    return layout;
  }
  layout.dp = devices;
  if (model.num_moe() > 0) layout.ep = std::gcd(devices, model.config.moe.num_experts);
  return layout;
}

}  // namespace

plan::Layout plan_layout(const PlanOptions& options, const plan::PlanModel& model,
                         std::int64_t devices) {
  if (options.layout.empty()) {
    plan::Layout layout = default_layout(model, std::max<std::int64_t>(1, devices));
    layout.experts_on_host = !options.dram.empty() && model.num_moe() > 0;
    return layout;
  }
  const plan::Layout layout = plan::parse_layout(options.layout);
  if (devices > 0 && layout.devices() != devices) {
    fail(ErrorCode::kUsage,
         "--layout {} is {} devices and --hw {} has {}; the rule is tp x dp x pp = devices",
         options.layout, layout.devices(), options.hardware, devices);
  }
  return layout;
}

plan::Scenario plan_scenario(const PlanOptions& options) {
  PlanMachine machine = plan_machine(options);
  plan::Scenario scenario;
  scenario.model = plan_model(options.model, options);
  scenario.hardware = std::move(machine.hardware);
  scenario.efficiency = std::move(machine.efficiency);
  scenario.workload = read_workload(options);
  scenario.layout = plan_layout(options, scenario.model, machine.devices);
  const bool tiers = !options.dram.empty() || !options.nvme.empty();
  if (tiers && !scenario.layout.experts_on_host) {
    fail(ErrorCode::kUsage, "--dram and --nvme hold routed experts: {}",
         scenario.model.num_moe() == 0 ? scenario.model.name + " has none; leave them out"
         : options.layout.empty()      ? "give --dram too, such as --dram 128GB"
                                       : "add experts=host to --layout, or leave them out");
  }
  plan::check_scenario(scenario);
  return scenario;
}

}  // namespace baltoro::cli
