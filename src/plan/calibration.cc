#include "plan/calibration.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "core/error.h"
#include "io/output_file.h"

namespace baltoro::plan {
namespace {

using nlohmann::ordered_json;
using std::filesystem::path;

constexpr const char* kFormat = "baltoro calibration 2";

ordered_json to_json(const Curve& curve) {
  ordered_json list = ordered_json::array();
  for (const auto& [x, y] : curve.points()) list.push_back({x, y});
  return list;
}

Curve curve_of(const ordered_json& list) {
  Curve::Points points;
  for (const ordered_json& point : list) points.emplace_back(point.at(0), point.at(1));
  return Curve(points);
}

ordered_json to_json(const KernelModel& model) {
  return {{"flops_per_flop_over_rows", to_json(model.flops_per_flop)},
          {"flops_per_inner_product", model.flops_per_inner_product},
          {"flops_per_weight_row", model.flops_per_weight_row},
          {"bytes_per_byte_over_run", to_json(model.bytes_per_byte)},
          {"overlap", model.overlap},
          {"launches", model.launches},
          {"error",
           {{"median", model.median_error},
            {"p90", model.p90_error},
            {"worst", model.worst_error},
            {"points", model.num_points}}}};
}

KernelModel model_of(const ordered_json& json) {
  const ordered_json& error = json.at("error");
  return {.flops_per_flop = curve_of(json.at("flops_per_flop_over_rows")),
          .flops_per_inner_product = json.at("flops_per_inner_product"),
          .flops_per_weight_row = json.at("flops_per_weight_row"),
          .bytes_per_byte = curve_of(json.at("bytes_per_byte_over_run")),
          .overlap = json.at("overlap"),
          .launches = json.at("launches"),
          .median_error = error.at("median"),
          .p90_error = error.at("p90"),
          .worst_error = error.at("worst"),
          .num_points = error.at("points")};
}

ordered_json to_json(const CalibrationPoint& point) {
  const KernelSample& sample = point.sample;
  return {{"group", point.group},
          {"kernel", point.kernel},
          {"name", sample.name},
          {"flops", sample.work.flops},
          {"bytes", sample.work.bytes},
          {"rows", sample.work.rows},
          {"depth", sample.work.depth},
          {"run", sample.work.run},
          {"loops", sample.work.loops},
          {"working_set", sample.working_set},
          {"bandwidth", sample.machine.bandwidth},
          {"flops_per_second", sample.machine.flops_per_second},
          {"dispatch_seconds", sample.machine.dispatch_seconds},
          {"seconds", sample.seconds}};
}

CalibrationPoint point_of(const ordered_json& json) {
  return {.group = json.at("group"),
          .kernel = json.at("kernel"),
          .sample = {.name = json.at("name"),
                     .work = {.flops = json.at("flops"),
                              .bytes = json.at("bytes"),
                              .rows = json.at("rows"),
                              .depth = json.at("depth"),
                              .run = json.at("run"),
                              .loops = json.at("loops")},
                     .working_set = json.at("working_set"),
                     .machine = {json.at("bandwidth"), json.at("flops_per_second"),
                                 json.at("dispatch_seconds")},
                     .seconds = json.at("seconds")}};
}

ordered_json to_json(const CalibrationKey& key) {
  return {{"machine", key.machine},
          {"backend", key.backend},
          {"threads", key.threads},
          {"activations", key.activations},
          {"build", key.build}};
}

CalibrationKey key_of(const ordered_json& json) {
  return {.machine = json.at("machine"),
          .backend = json.at("backend"),
          .threads = json.at("threads"),
          .activations = json.at("activations"),
          .build = json.at("build")};
}

Calibration calibration_of(const ordered_json& json) {
  Calibration calibration;
  calibration.key = key_of(json.at("key"));
  calibration.date = json.at("date");
  for (const ordered_json& point : json.at("points")) calibration.points.push_back(point_of(point));
  calibration.bandwidth = curve_of(json.at("bandwidth"));
  calibration.flops_per_second = json.at("flops_per_second");
  calibration.dispatch_seconds = json.at("dispatch_seconds");
  for (const auto& [name, model] : json.at("kernels").items()) {
    calibration.kernels[name] = model_of(model);
  }
  return calibration;
}

double median_of(const std::vector<CalibrationPoint>& points, double MachineState::*field) {
  std::vector<double> values;
  for (const CalibrationPoint& point : points) values.push_back(point.sample.machine.*field);
  std::ranges::nth_element(values, values.begin() + std::ssize(values) / 2);
  return values[values.size() / 2];
}

// The first field that differs: "the build is A, this program's is B".
std::string difference(const CalibrationKey& then, const CalibrationKey& now) {
  const auto say = [](const char* what, const auto& a, const auto& b) {
    return fmt::format("its {} is {}, here it is {}", what, a, b);
  };
  if (then.machine != now.machine) return say("machine", then.machine, now.machine);
  if (then.backend != now.backend) return say("backend", then.backend, now.backend);
  if (then.threads != now.threads) return say("number of threads", then.threads, now.threads);
  if (then.activations != now.activations) {
    return say("activation type", then.activations, now.activations);
  }
  return say("build", then.build, now.build);
}

}  // namespace

bool Calibration::has_group(const std::string& group) const {
  return std::ranges::find(points, group, &CalibrationPoint::group) != points.end();
}

void Calibration::replace_group(const std::string& group, std::vector<CalibrationPoint> fresh) {
  std::erase_if(points, [&](const CalibrationPoint& point) { return point.group == group; });
  points.insert(points.end(), fresh.begin(), fresh.end());
}

void Calibration::fit() {
  kernels.clear();
  Curve::Points stream;
  std::map<std::string, std::vector<KernelSample>> samples;
  for (const CalibrationPoint& point : points) {
    const KernelSample& sample = point.sample;
    samples[point.kernel].push_back(sample);
    if (point.group != kStreamGroup) continue;
    stream.emplace_back(sample.working_set,
                        sample.work.bytes / (sample.seconds - sample.machine.dispatch_seconds));
  }
  if (stream.empty()) return;
  std::ranges::sort(stream);
  bandwidth = Curve(stream);
  flops_per_second = median_of(points, &MachineState::flops_per_second);
  dispatch_seconds = median_of(points, &MachineState::dispatch_seconds);
  for (const auto& [name, list] : samples) kernels[name] = fit_kernel(list);
}

const KernelModel& Calibration::kernel(const std::string& name) const {
  const auto found = kernels.find(name);
  if (found == kernels.end()) {
    fail(ErrorCode::kUsage,
         "the calibration has no kernel \"{}\"; measure the rest of it with `{} --resume`", name,
         calibrate_command(key));
  }
  return found->second;
}

std::string calibrate_command(const CalibrationKey& key) {
  if (key.backend.empty()) return "baltoro plan calibrate";
  const std::size_t slash = key.backend.find('/');
  std::string command = "baltoro plan calibrate";
  if (key.backend.starts_with("cpu/")) {
    command += fmt::format(" --threads {} --isa {}", key.threads, key.backend.substr(slash + 1));
  } else {
    command += fmt::format(" --device {}", key.backend.substr(0, key.backend.find_first_of("/ ")));
  }
  return command + (key.activations == "bf16" ? "" : " --activations " + key.activations);
}

path default_calibration_path(const CalibrationKey& key) {
  const char* const cache = std::getenv("XDG_CACHE_HOME");
  const char* const home = std::getenv("HOME");
  const path root = cache != nullptr && *cache != '\0' ? path(cache)
                    : home != nullptr                  ? path(home) / ".cache"
                                                       : std::filesystem::temp_directory_path();
  std::string name =
      fmt::format("calibration-{}-{}-{}.json", key.backend, key.threads, key.activations);
  std::ranges::replace_if(
      name, [](char c) { return c == '/' || c == ':' || c == ' '; }, '-');
  return root / "baltoro" / name;
}

void save_calibration(const Calibration& calibration, const path& file) {
  ordered_json points = ordered_json::array(), kernels = ordered_json::object();
  for (const CalibrationPoint& point : calibration.points) points.push_back(to_json(point));
  for (const auto& [name, model] : calibration.kernels) kernels[name] = to_json(model);
  const ordered_json document = {{"format", kFormat},
                                 {"key", to_json(calibration.key)},
                                 {"date", calibration.date},
                                 {"bandwidth", to_json(calibration.bandwidth)},
                                 {"flops_per_second", calibration.flops_per_second},
                                 {"dispatch_seconds", calibration.dispatch_seconds},
                                 {"kernels", kernels},
                                 {"points", points}};
  write_text_file(file, document.dump(1) + "\n");
}

Calibration load_calibration(const path& file) {
  std::ifstream stream(file);
  if (!stream) {
    fail(
        ErrorCode::kUsage,
        "{}: no calibration of this machine; write it with `baltoro plan calibrate` (some minutes)",
        file.string());
  }
  std::ostringstream text;
  text << stream.rdbuf();
  std::string fault = "its format is another";
  try {
    const ordered_json json = ordered_json::parse(text.str());
    if (json.at("format") == kFormat) return calibration_of(json);
  } catch (const nlohmann::json::exception& error) {
    fault = error.what();
  }
  fail(ErrorCode::kUsage,
       "{}: not a calibration of this version ({}); write it again with `baltoro plan calibrate`",
       file.string(), fault);
}

Calibration load_calibration(const path& file, const CalibrationKey& now) {
  Calibration calibration = load_calibration(file);
  if (calibration.key == now) return calibration;
  fail(ErrorCode::kUsage, "{}: stale: {}; measure again with `{}`", file.string(),
       difference(calibration.key, now), calibrate_command(now));
}

}  // namespace baltoro::plan
