#include "cli/inspect_verify.h"

#include <fmt/format.h>

#include <span>
#include <string>
#include <vector>

#include "baltoro/error.h"
#include "cli/command.h"
#include "cli/format.h"
#include "io/checkpoint_files.h"
#include "io/crc32.h"
#include "io/verify.h"
#include "io/weight_store.h"
#include "model/loader.h"

namespace baltoro::cli {
namespace {

using nlohmann::ordered_json;

// Faults named one by one; a damaged disk can give hundreds of thousands.
constexpr std::size_t kMaxListed = 50;

std::string describe_check(const TensorCheck& check) {
  std::string text;
  const auto add = [&](std::uint64_t count, const char* what) {
    if (count > 0) text += fmt::format("{}{} {}", text.empty() ? "" : ", ", count, what);
  };
  add(check.num_nan, "NaN");
  add(check.num_inf, "infinite");
  add(check.num_bad_scales, "scale bytes 255 (NaN)");
  if (!text.empty()) return text + fmt::format(", the first at element {}", check.first_bad);
  return check.zero_expert ? "all zero" : "sound";
}

// Of the tensors' names and checksums, so that two copies of a model can be compared by one number.
std::uint32_t overall_checksum(const CheckpointFiles& files,
                               const std::vector<TensorCheck>& checks) {
  std::uint32_t crc = 0;
  for (const TensorCheck& check : checks) {
    const std::string line =
        fmt::format("{} {:08x}\n", files.tensors()[check.tensor].name, check.crc32);
    crc = crc32(std::as_bytes(std::span(line)), crc);
  }
  return crc;
}

ordered_json to_json(const CheckpointFiles& files, const std::vector<TensorCheck>& checks) {
  ordered_json bad = ordered_json::array(), checksums = ordered_json::object();
  for (const TensorCheck& check : checks) {
    const std::string& name = files.tensors()[check.tensor].name;
    checksums[name] = fmt::format("{:08x}", check.crc32);
    if (!check.bad()) continue;
    bad.push_back({{"tensor", name},
                   {"file", files.file_name(files.tensors()[check.tensor])},
                   {"nan", check.num_nan},
                   {"infinite", check.num_inf},
                   {"bad_scales", check.num_bad_scales},
                   {"first_bad_element", check.first_bad},
                   {"zero_expert", check.zero_expert}});
  }
  return {{"bad", bad}, {"crc32", checksums}};
}

// Whether the files and the configuration are one model.
struct Fit {
  std::string fault;  // empty: they are
  BindReport report;
};

Fit check_fit(const ModelConfig& config, const std::filesystem::path& dir) {
  Fit fit;
  try {
    WeightStore store(dir, {.maps = map_all});
    fit.report = bind(config, store).report;
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kBadModel) throw;
    fit.fault = error.what();
  }
  return fit;
}

ordered_json holes_json(const CheckpointFiles& files) {
  ordered_json holes = ordered_json::array();
  for (const FileHole& hole : files.holes()) {
    holes.push_back({{"file", files.files()[hole.file].path().filename().string()},
                     {"offset", hole.hole.offset},
                     {"bytes", hole.hole.bytes}});
  }
  return holes;
}

void print_fit(const Fit& fit, const CheckpointFiles& files) {
  if (!fit.fault.empty()) fmt::print("wrong         {}\n", fit.fault);
  std::size_t listed = 0;
  for (const std::string& name : fit.report.unused) {
    if (++listed <= kMaxListed) fmt::print("unused        {}\n", name);
  }
  if (listed > kMaxListed) fmt::print("unused        and {} more\n", listed - kMaxListed);
  for (const ordered_json& hole : holes_json(files)) {
    fmt::print("hole          {} at {} of {}\n",
               counted(hole["bytes"].get<std::uint64_t>(), "byte"),
               hole["offset"].get<std::uint64_t>(), hole["file"].get<std::string>());
  }
}

void print_damage(const CheckpointFiles& files, const std::vector<TensorCheck>& checks) {
  std::size_t listed = 0;
  for (const TensorCheck& check : checks) {
    if (!check.bad() || ++listed > kMaxListed) continue;
    const TensorInfo& tensor = files.tensors()[check.tensor];
    fmt::print("damaged       {} in {}: {}\n", tensor.name, files.file_name(tensor),
               describe_check(check));
  }
  if (listed > kMaxListed) fmt::print("damaged       and {} more\n", listed - kMaxListed);
}

}  // namespace

int verify_model(const ModelConfig& config, const std::filesystem::path& dir, ProgressMode progress,
                 ordered_json* document) {
  const CheckpointFiles files(dir);
  const Fit fit = check_fit(config, dir);
  std::vector<TensorCheck> checks;
  {
    ProgressBar bar("Reading tensors", progress);
    TensorVerifyOptions options;
    options.progress = [&](std::uint64_t done, std::uint64_t total) { bar.update(done, total); };
    checks = verify_tensors(files, options);
  }
  std::size_t num_bad = 0;
  for (const TensorCheck& check : checks) num_bad += check.bad();
  const int status = num_bad > 0 || !fit.fault.empty() ? kBadModel : kOk;
  const std::uint32_t crc = overall_checksum(files, checks);
  if (document != nullptr) {
    ordered_json verify = to_json(files, checks);
    verify["fault"] = fit.fault.empty() ? ordered_json() : ordered_json(fit.fault);
    verify["unused"] = fit.report.unused;
    verify["holes"] = holes_json(files);
    verify["checksum"] = fmt::format("{:08x}", crc);
    (*document)["verify"] = std::move(verify);
    return status;
  }
  print_fit(fit, files);
  print_damage(files, checks);
  fmt::print("verify        {} read, {} damaged, checksum {:08x}\n",
             counted(checks.size(), "tensor"), num_bad, crc);
  return status;
}

}  // namespace baltoro::cli
