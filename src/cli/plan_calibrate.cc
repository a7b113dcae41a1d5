// `baltoro plan calibrate`: what this machine's kernels do, measured once for all predictions.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <memory>
#include <optional>

#include "cli/arguments.h"
#include "cli/command.h"
#include "cli/format.h"
#include "cli/plan_commands.h"
#include "cli/progress.h"
#include "core/error.h"
#include "io/output_file.h"
#include "measure/calibrate.h"
#include "measure/machine.h"
#include "plan/key_value.h"

namespace baltoro::cli {
namespace {

using nlohmann::ordered_json;

struct PlanCalibrateCommand {
  EngineOptions engine;
  std::string activations = "bf16";
  std::string isa;  // empty: the best
  std::optional<std::string> out;
  std::vector<std::string> groups;
  RepeatOptions repeat{.repeats = 2, .max_dropped = 8, .sample_seconds = 0.1};
  bool resume = false;
  bool progress = false;
  bool json = false;
};

// What was not measured, and why.
struct Dropped {
  int samples = 0;
  int moved = 0;
  std::vector<std::string> points;
};

void check_groups(const std::vector<std::string>& groups) {
  const std::vector<std::string> known = calibration_groups();
  for (const std::string& group : groups) {
    if (std::ranges::find(known, group) != known.end()) continue;
    plan::fail_unknown("", group, "group", known);
  }
}

// Where the calibration goes. Throws Error{kIo} where that cannot be written: before minutes of
// measuring, not after them.
std::filesystem::path output_path(const PlanCalibrateCommand& options,
                                  const plan::CalibrationKey& key) {
  std::filesystem::path file;
  if (options.out) {
    file = *options.out;
  } else {
    file = plan::default_calibration_path(key);
    std::error_code ignored;  // the next line says it
    std::filesystem::create_directories(file.parent_path(), ignored);
  }
  const OutputFile trial(file);
  return file;
}

// The calibration to go on from: that of the file where it is of this machine, or an empty one.
plan::Calibration earlier(const PlanCalibrateCommand& options, const std::filesystem::path& file,
                          const plan::CalibrationKey& key) {
  plan::Calibration fresh;
  fresh.key = key;
  if (options.groups.empty() && !options.resume) return fresh;
  if (!std::filesystem::exists(file)) return fresh;
  // A stale file is no ground to stand on, and to lose it silently would be no better.
  return plan::load_calibration(file, key);
}

class Calibrator {
 public:
  Calibrator(const PlanCalibrateCommand& options, Backend& backend, std::filesystem::path file,
             plan::Calibration calibration)
      : options_(options),
        backend_(backend),
        timer_(backend),
        file_(std::move(file)),
        calibration_(std::move(calibration)),
        bar_("Measuring", options.progress ? ProgressMode::kAlways : ProgressMode::kAuto,
             ProgressUnit::kPoints) {}

  // Group by group; the file is complete after each.
  void run() {
    const std::vector<OpPoint> points = op_points(backend_);
    std::vector<std::string> groups;
    for (const std::string& group : calibration_groups()) {
      if (wanted(group)) groups.push_back(group);
    }
    total_ = static_cast<std::uint64_t>(std::ranges::count_if(points, [&](const OpPoint& point) {
      return std::ranges::find(groups, point.group) != groups.end();
    }));
    for (const std::string& group : groups) measure_group(group, points);
  }

  const plan::Calibration& calibration() const { return calibration_; }
  const Dropped& dropped() const { return dropped_; }

 private:
  bool wanted(const std::string& group) const {
    const std::vector<std::string>& asked = options_.groups;
    if (!asked.empty()) return std::ranges::find(asked, group) != asked.end();
    return !(options_.resume && calibration_.has_group(group));
  }

  // Whether there is a time.
  bool measure(const OpPoint& point, std::vector<plan::CalibrationPoint>& times) {
    const TimedPoint timed = timer_.time(point, options_.repeat);
    dropped_.moved += timed.moved;
    dropped_.samples += static_cast<int>(timed.samples.dropped.size());
    if (timed.measured()) times.push_back(timed.point);
    return timed.measured();
  }

  void measure_group(const std::string& group, const std::vector<OpPoint>& all) {
    std::vector<OpPoint> points;
    std::ranges::copy_if(all, std::back_inserter(points),
                         [&](const OpPoint& point) { return point.group == group; });
    std::vector<plan::CalibrationPoint> times;
    std::vector<OpPoint> again;
    for (const OpPoint& point : points) {
      if (!measure(point, times)) again.push_back(point);
      bar_.update(++done_, total_);
    }
    // A disturbance that a point did not outlast may be over now.
    for (const OpPoint& point : again) {
      if (!measure(point, times)) dropped_.points.push_back(group + " " + point.name);
    }
    calibration_.replace_group(group, std::move(times));
    calibration_.date = describe_machine().date;
    calibration_.fit();
    plan::save_calibration(calibration_, file_);
  }

  const PlanCalibrateCommand& options_;
  Backend& backend_;
  PointTimer timer_;
  std::filesystem::path file_;
  plan::Calibration calibration_;
  Dropped dropped_;
  std::uint64_t done_ = 0, total_ = 0;
  ProgressBar bar_;
};

std::string kernel_line(const std::string& name, const plan::KernelModel& model, double peak) {
  const plan::Curve::Points& rates = model.flops_per_flop.points();
  const auto rate = [peak](double flops) {
    return flops > 0 ? fmt::format("{:.0f}", 1e-9 * peak / flops) : std::string("-");
  };
  return fmt::format("{:<18} {:6} {:>8} {:>8} {:8.2f} {:7.2f} {:8.1f} {:8.1f}\n", name,
                     model.num_points, rate(rates.front().second), rate(rates.back().second),
                     model.launches, model.overlap, 100 * model.median_error,
                     100 * model.worst_error);
}

void print_text(const plan::Calibration& calibration, const Dropped& dropped,
                const std::filesystem::path& file) {
  fmt::print("{}, {}, {} threads, {} activations\n", calibration.key.machine,
             calibration.key.backend, calibration.key.threads, calibration.key.activations);
  std::string stream;
  for (const auto& [bytes, rate] : calibration.bandwidth.points()) {
    stream +=
        fmt::format(" {}: {:.0f}", human_bytes(static_cast<std::uint64_t>(bytes)), rate / 1e9);
  }
  if (calibration.has_group(plan::kStreamGroup)) {
    fmt::print(
        "GB/s by working set:{}\na large product: {:.0f} GFLOP/s; an op that does nothing: {:.2f} "
        "us\n",
        stream, 1e-9 * calibration.flops_per_second, 1e6 * calibration.dispatch_seconds);
  }
  fmt::print("{:<18} {:>6} {:>8} {:>8} {:>8} {:>7} {:>8} {:>8}\n", "kernel", "points", "GFLOP/s",
             "many", "launches", "overlap", "error %", "worst %");
  for (const auto& [name, model] : calibration.kernels)
    fmt::print("{}", kernel_line(name, model, calibration.flops_per_second));
  if (dropped.samples > 0) {
    fmt::print("{} dropped: other processes used the processors\n",
               counted(static_cast<std::uint64_t>(dropped.samples), "sample"));
  }
  if (dropped.moved > 0) {
    fmt::print("{} dropped: the machine changed meanwhile\n",
               counted(static_cast<std::uint64_t>(dropped.moved), "measurement"));
  }
  for (const std::string& point : dropped.points) fmt::print("no result: {}\n", point);
  fmt::print("written to {}\n", file.string());
}

ordered_json to_json(const plan::Calibration& calibration, const Dropped& dropped,
                     const std::filesystem::path& file) {
  ordered_json kernels = ordered_json::array();
  for (const auto& [name, model] : calibration.kernels) {
    kernels.push_back({{"name", name},
                       {"points", model.num_points},
                       {"launches", model.launches},
                       {"overlap", model.overlap},
                       {"median_error", model.median_error},
                       {"worst_error", model.worst_error}});
  }
  return {{"file", file.string()},
          {"date", calibration.date},
          {"machine", calibration.key.machine},
          {"backend", calibration.key.backend},
          {"threads", calibration.key.threads},
          {"activations", calibration.key.activations},
          {"build", calibration.key.build},
          {"kernels", kernels},
          {"flops_per_second", calibration.flops_per_second},
          {"dispatch_seconds", calibration.dispatch_seconds},
          {"dropped_samples", dropped.samples},
          {"dropped_measurements", dropped.moved},
          {"dropped_points", dropped.points}};
}

int run(const PlanCalibrateCommand& options) {
  check_groups(options.groups);
  if (!options.groups.empty() && options.resume) {
    fail(ErrorCode::kUsage, "--resume measures the groups that are missing; name none with it");
  }
  EngineOptions engine = options.engine;
  engine.activations = options.activations == "f32" ? Activations::kF32 : Activations::kBf16;
  if (!options.isa.empty()) engine.isa = options.isa;
  const std::unique_ptr<Backend> backend = calibration_backend(engine);
  const plan::CalibrationKey key = calibration_key(*backend);
  const std::filesystem::path file = output_path(options, key);
  plan::Calibration start = earlier(options, file, key);
  Dropped dropped;
  plan::Calibration calibration;
  {
    Calibrator calibrator(options, *backend, file, std::move(start));
    calibrator.run();
    calibration = calibrator.calibration();
    dropped = calibrator.dropped();
  }
  if (options.json) {
    print_json(to_json(calibration, dropped, file));
  } else {
    print_text(calibration, dropped, file);
  }
  return dropped.points.empty() ? kOk : kFailed;
}

}  // namespace

Command add_plan_calibrate(CLI::App& plan) {
  auto options = std::make_shared<PlanCalibrateCommand>();
  CLI::App* app = plan.add_subcommand("calibrate", "Measure this machine for predictions");
  app->add_option("GROUP", options->groups, "Only these groups of points, into the same file");
  app->add_option("--device", options->engine.device, "cpu, cuda, cuda:N")->capture_default_str();
  add_number(*app, "-t,--threads", options->engine.num_threads,
             "0 is all physical cores within the container's limit", {.min = 0, .max = 1024});
  add_isa(*app, options->isa);
  add_activations(*app, options->activations);
  add_text(
      *app, "-o,--out", options->out,
      "The file; by default one in ~/.cache/baltoro for each backend, threads and activations");
  app->add_flag("--resume", options->resume, "Only the groups that the file does not have yet");
  add_number(*app, "-r,--repeats", options->repeat.repeats, "Samples of a point", {.min = 1});
  add_number(*app, "--max-dropped", options->repeat.max_dropped,
             "Give a point up when other processes disturbed more samples than this", {.min = 0});
  app->add_flag("--allow-noise", options->repeat.allow_noise, "Keep disturbed samples");
  app->add_flag("--progress", options->progress,
                "Show the progress bar though stderr is no terminal");
  app->add_flag("--json", options->json, "Print one JSON document");
  app->footer(fmt::format(
      "Examples:\n"
      "  baltoro plan calibrate                       # some three minutes on an idle machine\n"
      "  baltoro plan calibrate --threads 1\n"
      "  baltoro plan calibrate --device cuda\n"
      "  baltoro plan calibrate linear expert_mlp     # these again\n"
      "  baltoro plan calibrate --resume              # go on where it was interrupted\n"
      "Groups: {}.\n"
      "Each op is timed through the backend in small shapes, on weights and states that go round "
      "in a\n"
      "cache or in memory; the constants of docs/plan.md are fitted to the times. The file belongs "
      "to\n"
      "this machine, backend, number of threads and build. The exit status is 1 where a point has "
      "no\n"
      "result. `baltoro plan verify MODEL` says how good the predictions are.",
      fmt::join(calibration_groups(), ", ")));
  return {app, [options] { return run(*options); }};
}

}  // namespace baltoro::cli
