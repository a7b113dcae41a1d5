// `baltoro plan verify`: predictions from the calibration against real steps of a model.
#include <fmt/format.h>

#include <array>
#include <memory>

#include "cli/arguments.h"
#include "cli/command.h"
#include "cli/format.h"
#include "cli/model_options.h"
#include "cli/plan_commands.h"
#include "core/error.h"
#include "measure/bench_row.h"
#include "measure/calibrate.h"
#include "measure/machine.h"
#include "measure/state_probe.h"
#include "measure/verify.h"

namespace baltoro::cli {
namespace {

using nlohmann::ordered_json;

struct PlanVerifyCommand {
  ModelOptions model;
  std::optional<std::string> file;
  std::vector<std::string> decodes, prompts;  // "4x256", "1x192x768"
  RepeatOptions repeat{.repeats = 3, .max_dropped = 9, .sample_seconds = 0.3};
  bool json = false;
};

// The whole numbers of "4x256" or "1x192x768".
template <std::size_t N>
std::array<std::int64_t, N> split_shape(const std::string& name, const std::string& text,
                                        const char* form) {
  std::array<std::int64_t, N> numbers{};
  std::size_t begin = 0;
  for (std::size_t i = 0; i < N; ++i) {
    const std::size_t end = text.find('x', begin);
    const bool last = i + 1 == N;
    if ((end == std::string::npos) != last) {
      fail(ErrorCode::kUsage, "{} {}: write {}", name, text, form);
    }
    numbers[i] = parse_whole<std::int64_t>(name, text.substr(begin, end - begin),
                                           {.min = i == 0 ? 1 : 0, .max = 1 << 20});
    begin = end + 1;
  }
  return numbers;
}

std::vector<PassShape> shapes_of(const PlanVerifyCommand& options) {
  std::vector<PassShape> shapes;
  for (const std::string& text : options.decodes) {
    const auto [batch, depth] =
        split_shape<2>("--decode", text, "sequences x tokens before, such as 4x256");
    shapes.push_back({batch, 1, depth, Origin::kGenerated});
  }
  for (const std::string& text : options.prompts) {
    const auto [batch, tokens, depth] = split_shape<3>(
        "--prompt", text, "sequences x new tokens x tokens before, such as 1x192x768");
    if (tokens == 0) fail(ErrorCode::kUsage, "--prompt {}: a prompt has at least one token", text);
    shapes.push_back({batch, tokens, depth, Origin::kPrompt});
  }
  return shapes.empty() ? default_verify_shapes() : shapes;
}

std::string step_name(const PassShape& shape) {
  if (shape.origin == Origin::kGenerated) {
    return fmt::format("decode {} x 1 after {}", shape.batch, shape.depth);
  }
  return fmt::format("prompt {} x {} after {}", shape.batch, shape.tokens, shape.depth);
}

void print_header(const plan::Calibration& calibration, const std::filesystem::path& file) {
  fmt::print("{}, {}, {} threads; calibration of {} in {}\n", calibration.key.machine,
             calibration.key.backend, calibration.key.threads, calibration.date, file.string());
  fmt::print("{:<26} {:>11} {:>9} {:>9} {:>19} {:>8}\n", "step", "working set", "measured",
             "predicted", "range", "error");
}

void print_row(const VerifyRow& row) {
  const std::string name = step_name(row.shape);
  if (!row.measured) {
    fmt::print("{:<26} no result: other processes, or a machine that does not stay the same\n",
               name);
    return;
  }
  fmt::print("{:<26} {:>11} {:6.2f} ms {:6.2f} ms {:>19} {:+6.1f} %{}\n", name,
             human_bytes(static_cast<std::uint64_t>(row.working_set)), 1e3 * row.measured_seconds(),
             1e3 * row.predicted.seconds,
             fmt::format("{:.2f} to {:.2f} ms", 1e3 * row.predicted.low, 1e3 * row.predicted.high),
             100 * row.error(), row.moved > 0 ? fmt::format("  {} dropped", row.moved) : "");
}

// Sums over the measured steps of one origin.
std::vector<ComponentTime> components_of(const std::vector<VerifyRow>& rows, Origin origin) {
  std::vector<ComponentTime> sums;
  for (const VerifyRow& row : rows) {
    if (!row.measured || row.shape.origin != origin) continue;
    for (const ComponentTime& component : row.components) {
      add_component(sums, component.name, component.predicted, component.measured);
    }
  }
  return sums;
}

void print_components(const std::vector<VerifyRow>& rows, Origin origin, const char* title) {
  const std::vector<ComponentTime> sums = components_of(rows, origin);
  double total = 0;
  for (const ComponentTime& sum : sums) total += sum.measured;
  if (total == 0) return;
  fmt::print("\n{:<26} {:>9} {:>9} {:>8} {:>8}\n", title, "measured", "predicted", "share",
             "error");
  for (const ComponentTime& sum : sums) {
    if (sum.predicted == 0 && sum.name != kBetweenOps) continue;  // has nothing to do here
    fmt::print("{:<26} {:6.2f} ms {:6.2f} ms {:6.1f} % {:>8}\n", sum.name, 1e3 * sum.measured,
               1e3 * sum.predicted, 100 * sum.measured / total,
               sum.predicted == 0
                   ? "-"
                   : fmt::format("{:+.1f} %", 100 * (sum.predicted / sum.measured - 1)));
  }
}

ordered_json to_json(const VerifyRow& row) {
  ordered_json out = {{"phase", row.shape.origin == Origin::kGenerated ? "decode" : "prompt"},
                      {"batch", row.shape.batch},
                      {"tokens", row.shape.tokens},
                      {"depth", row.shape.depth},
                      {"working_set_bytes", row.working_set},
                      {"predicted_seconds", row.predicted.seconds},
                      {"predicted_range", {row.predicted.low, row.predicted.high}},
                      {"dropped_measurements", row.moved},
                      {"status", row.measured ? "ok" : "dropped"}};
  if (!row.measured) return out;
  out["measured_seconds"] = row.measured_seconds();
  out["error"] = row.error();
  out["as_calibrated_seconds"] = row.as_calibrated;
  ordered_json components = ordered_json::array();
  for (const ComponentTime& component : row.components) {
    components.push_back({{"name", component.name},
                          {"predicted_seconds", component.predicted},
                          {"measured_seconds", component.measured}});
  }
  out["components"] = components;
  return out;
}

ordered_json to_json(const std::vector<VerifyRow>& rows, const VerifyVerdict& verdict,
                     const plan::Calibration& calibration, const std::string& model) {
  ordered_json list = ordered_json::array();
  for (const VerifyRow& row : rows) list.push_back(to_json(row));
  return {
      {"model", model},
      {"machine", calibration.key.machine},
      {"backend", calibration.key.backend},
      {"threads", calibration.key.threads},
      {"build", calibration.key.build},
      {"calibrated", calibration.date},
      {"steps", list},
      {"median_error", verdict.median_error},
      {"worst_error", verdict.worst_error},
      {"as_calibrated",
       {{"median_error", verdict.calibrated_median}, {"worst_error", verdict.calibrated_worst}}},
      {"passed", verdict.passed},
      {"verdict", verdict.text}};
}

int run(const PlanVerifyCommand& options) {
  require_model_directory(options.model.dir, "plan verify");
  VerifyOptions verification;
  verification.dir = options.model.dir;
  verification.engine = engine_options(options.model);
  verification.shapes = shapes_of(options);
  verification.repeat = options.repeat;
  const std::unique_ptr<Backend> backend = calibration_backend(verification.engine);
  const plan::CalibrationKey key = calibration_key(*backend);
  const std::filesystem::path file =
      options.file ? std::filesystem::path(*options.file) : plan::default_calibration_path(key);
  const plan::Calibration calibration = plan::load_calibration(file, key);

  if (!options.json) print_header(calibration, file);
  StateProbe probe(*backend);
  std::vector<VerifyRow> rows;
  verify(
      verification, calibration, *backend,
      [&](double working_set) { return probe.state(working_set); },
      [&](const VerifyRow& row) {
        if (!options.json) print_row(row);
        std::fflush(stdout);
        rows.push_back(row);
      });
  const VerifyVerdict verdict = judge(rows);
  if (options.json) {
    print_json(to_json(rows, verdict, calibration, options.model.dir));
  } else {
    print_components(rows, Origin::kGenerated, "decode, all steps");
    print_components(rows, Origin::kPrompt, "prompt, all steps");
    fmt::print("\n{}\n", verdict.text);
    if (verdict.num_rows > 0) {
      fmt::print(
          "with the bandwidth and the dispatch time of the calibration instead of those beside "
          "each "
          "step: median {:.1f} %, worst {:.1f} %\n",
          100 * verdict.calibrated_median, 100 * verdict.calibrated_worst);
    }
  }
  return verdict.passed ? kOk : kFailed;
}

}  // namespace

Command add_plan_verify(CLI::App& plan) {
  auto options = std::make_shared<PlanVerifyCommand>();
  CLI::App* app =
      plan.add_subcommand("verify", "Compare the calibration's predictions with real steps");
  add_model_options(*app, options->model);
  add_text(*app, "--calibration", options->file,
           "The calibration; by default that of `plan calibrate`");
  app->add_option("--decode", options->decodes, "Steps of one generated token: SEQUENCESxDEPTH")
      ->delimiter(',')
      ->type_name("BxS,...");
  app->add_option("--prompt", options->prompts, "Steps of a prompt: SEQUENCESxTOKENSxDEPTH")
      ->delimiter(',')
      ->type_name("BxTxS,...");
  add_number(*app, "-r,--repeats", options->repeat.repeats, "Samples of a step", {.min = 1});
  add_number(*app, "--max-dropped", options->repeat.max_dropped,
             "Give a step up when other processes disturbed more samples than this", {.min = 0});
  app->add_flag("--allow-noise", options->repeat.allow_noise, "Keep disturbed samples");
  app->add_flag("--json", options->json, "Print one JSON document");
  app->footer(
      "Examples:\n"
      "  baltoro plan calibrate\n"
      "  baltoro plan verify models/story\n"
      "  baltoro plan verify MODEL --decode 1x4096,4x1024 --prompt 1x256x0\n"
      "  baltoro plan verify models/story --json > verify.json\n"
      "No step is part of the calibration. The state of the machine (docs/plan.md: how fast it\n"
      "multiplies, how fast it reads the step's working set, how long an op that does nothing\n"
      "takes) is measured before and after each step; where it changes by more than a quarter\n"
      "meanwhile, the step is measured again. The exit status is 1 where the median error is "
      "above\n"
      "15 % or the worst above 30 %.");
  return {app, [options] { return run(*options); }};
}

}  // namespace baltoro::cli
