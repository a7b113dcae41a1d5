#include "plan/measured.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "core/error.h"
#include "plan/arithmetic.h"
#include "plan/kernel_call.h"

namespace baltoro::plan {
namespace {

namespace fs = std::filesystem;

// The formats that a calibration measures; of others the nearest in bytes.
WeightFormat nearest_format(Format format) {
  switch (format) {
    case Format::kF32:
    case Format::kBf16:
      return WeightFormat::kBf16;
    case Format::kMxfp4:
    case Format::kNvfp4:
    case Format::kInt4:
      return WeightFormat::kMxfp4;
    case Format::kFp8:
    case Format::kInt8:
    case Format::kMxint8:
      break;
  }
  return WeightFormat::kMxint8;
}

// "linear bf16 row".
std::string product(const char* op, const Scenario& scenario, Part part, double rows) {
  const Format format = part_format(scenario.model.formats, part);
  const std::string known = weight_format_name(nearest_format(format));
  if (known != format_name(format)) {
    fail(
        ErrorCode::kUsage,
        "--hw measured: the engine has no {} kernels, which {} would run; the nearest are those of "
        "{}: --dtype",
        format_name(format), part_name(part), known);
  }
  return fmt::format("{} {}{}", op, known, rows == 1 && part != Part::kRouted ? " row" : "");
}

// The kernel of a part, the loops over the threads of its calls in one layer (kernel_call.cc), and
// what its inner products are like.
struct PartKernel {
  std::string name;
  double loops = 1;
  double rows = 1;
  double depth = 1;
  bool has_weight_rows = false;
};

PartKernel linear_kernel(const Scenario& scenario, Part part, const PartWork& work, double calls) {
  const double width = real(scenario.model.config.hidden_size);
  return {product("linear", scenario, part, work.rows), calls, work.rows, width, true};
}

PartKernel glu_kernel(const Scenario& scenario, Part part, const PartWork& work, std::int64_t width,
                      std::int64_t inner) {
  return {product("glu_mlp", scenario, part, work.rows), 2, work.rows,
          glu_depth(real(width), real(inner), real(width)), true};
}

PartKernel expert_kernel(const Scenario& scenario, const StepShape& shape, const PartWork& work) {
  const double width = real(scenario.model.expert_width());
  const double inner = real(scenario.model.config.moe.expert_ffn_size);
  return {product("expert_mlp", scenario, Part::kRouted, work.rows), shape.tokens() > 1 ? 3.0 : 2.0,
          work.rows, glu_depth(width, inner, width), true};
}

// Parts of a single op whose rows are those of one sequence.
PartKernel sequence_kernel(const Scenario& scenario, const StepShape& shape, Part part) {
  const bool prompt = shape.prompts > 0;
  const double rows = real(prompt ? shape.prompt_tokens : shape.query_tokens);
  const ModelConfig& config = scenario.model.config;
  if (part == Part::kKdaState) {
    return {prompt ? "kda_mix prompt" : "kda_mix generated", 1, rows, real(config.kda.head_dim_k)};
  }
  return {prompt ? "mla_prefill" : "mla_decode", 1, prompt ? rows : real(config.mla.num_heads),
          attention_depth(mla_shape(config.mla), prompt ? Origin::kPrompt : Origin::kGenerated)};
}

// Nothing for what no op computes.
std::optional<PartKernel> part_kernel(const Scenario& scenario, const StepShape& shape, Part part,
                                      const PartWork& work) {
  const ModelConfig& config = scenario.model.config;
  const double width = real(config.hidden_size);
  const double row_loops = work.rows > 1 ? 1 : 0;  // of ops that share out rows
  switch (part) {
    case Part::kEmbed:
      return PartKernel{"embed", row_loops, work.rows, 1};
    case Part::kKdaProj:
      return linear_kernel(scenario, part, work, 3);  // in, decay up, out
    case Part::kAttnProj:
      return linear_kernel(scenario, part, work, config.mla.q_lora_rank > 0 ? 3 : 2);
    case Part::kLatent:
      return linear_kernel(scenario, part, work, 2);
    case Part::kHead:
      return linear_kernel(scenario, part, work, 1);
    case Part::kKdaState:
    case Part::kAttnCore:
      return sequence_kernel(scenario, shape, part);
    case Part::kMix:
      return PartKernel{"mix_norm", row_loops, work.rows, width};
    case Part::kRouter:
      return PartKernel{"route", (config.moe.num_experts > 32 ? 1 : 0) + row_loops, work.rows,
                        width, true};
    case Part::kRouted:
      return expert_kernel(scenario, shape, work);
    case Part::kShared:
      return glu_kernel(scenario, part, work, config.hidden_size, config.moe.shared_ffn_size());
    case Part::kDense:
      return glu_kernel(scenario, part, work, config.hidden_size, config.intermediate_size);
    case Part::kPipeline:
    case Part::kLaunch:
      break;
  }
  return std::nullopt;
}

}  // namespace

Calibration newest_calibration(const fs::path& folder, const CalibrationKey& now) {
  std::optional<Calibration> newest;
  std::string refused;
  std::error_code none;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, none)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with("calibration-") || !name.ends_with(".json")) continue;
    try {
      CalibrationKey key = load_calibration(entry.path()).key;
      key.machine = now.machine;
      key.build = now.build;
      Calibration found = load_calibration(entry.path(), key);
      if (!newest || found.date > newest->date) newest = std::move(found);
    } catch (const Error& error) {
      refused = error.what();
    }
  }
  if (newest) return *std::move(newest);
  if (!refused.empty()) fail(ErrorCode::kUsage, "--hw measured: {}", refused);
  fail(ErrorCode::kUsage,
       "--hw measured: no calibration of this machine in {}; write one with `{}` (some minutes)",
       folder.string(), calibrate_command({}));
}

Hardware measured_hardware(const Calibration& calibration, double memory_bytes) {
  const CalibrationKey& key = calibration.key;
  const std::string source =
      fmt::format("plan calibrate of {}, {}, {} threads, {} activations", calibration.date,
                  key.backend, key.threads, key.activations);
  Hardware hardware;
  hardware.name = "measured";
  hardware.title = key.machine;
  hardware.memory_bytes = {memory_bytes, Provenance::kMeasured, "of this machine"};
  hardware.memory_bandwidth = {calibration.bandwidth.points().back().second, Provenance::kMeasured,
                               source};
  hardware.bf16_flops = {calibration.flops_per_second, Provenance::kMeasured, source};
  return hardware;
}

Efficiency measured_efficiency(std::shared_ptr<const Calibration> calibration) {
  Efficiency efficiency;
  efficiency.kind = Efficiency::Kind::kMeasured;
  efficiency.executed_flops = true;
  std::vector<double> ratios;
  for (const CalibrationPoint& point : calibration->points) {
    const KernelSample& sample = point.sample;
    const double predicted = calibration->kernel(point.kernel).seconds(sample.work, sample.machine);
    if (predicted > 0) ratios.push_back(sample.seconds / predicted);
  }
  std::ranges::sort(ratios);
  if (!ratios.empty()) {
    efficiency.residuals = {ratios[ratios.size() / 20],
                            ratios[ratios.size() - 1 - ratios.size() / 20]};
  }
  efficiency.calibration = std::move(calibration);
  return efficiency;
}

PartTime measured_part_time(const Scenario& scenario, const StepShape& microbatch, Part part,
                            const PartWork& work, double step_bytes) {
  PartTime time;
  if (work.bytes() == 0) return time;
  const std::optional<PartKernel> kernel = part_kernel(scenario, microbatch, part, work);
  if (!kernel) return time;
  const Calibration& calibration = *scenario.efficiency.calibration;
  const KernelModel& model = calibration.kernel(kernel->name);
  const MachineState machine = calibration.machine(step_bytes);
  const bool is_sequence = part == Part::kKdaState || part == Part::kAttnCore;
  const double run = kernel->has_weight_rows
                         ? kernel->depth * format_bytes(part_format(scenario.model.formats, part))
                         : 0;
  const KernelWork all = {.flops = is_sequence ? work.executed_flops : work.flops,
                          .bytes = work.bytes(),
                          .rows = kernel->rows,
                          .depth = kernel->depth,
                          .run = run,
                          .loops = work.calls * kernel->loops};
  time.compute = model.arithmetic_seconds(all, machine);
  time.memory = model.memory_seconds(all, machine);
  time.fixed = model.seconds(all, machine) - std::max(time.compute, time.memory);
  return time;
}

}  // namespace baltoro::plan
