#include "cli/inspect_verify.h"

#include <fmt/format.h>

#include <span>
#include <string>
#include <vector>

#include "cli/command.h"
#include "io/checkpoint_files.h"
#include "io/crc32.h"
#include "io/verify.h"

namespace baltoro::cli {
namespace {

using nlohmann::ordered_json;

// Faults named one by one; a damaged disk can give hundreds of thousands.
constexpr std::size_t kMaxListed = 50;

std::string describe(const TensorCheck& check) {
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

}  // namespace

int verify_tensors(const std::filesystem::path& dir, ProgressMode progress,
                   ordered_json* document) {
  const CheckpointFiles files(dir);
  std::vector<TensorCheck> checks;
  {
    ProgressBar bar("Reading tensors", progress);
    VerifyOptions options;
    options.progress = [&](std::uint64_t done, std::uint64_t total) { bar.update(done, total); };
    checks = baltoro::verify_tensors(files, options);
  }
  std::size_t num_bad = 0;
  for (const TensorCheck& check : checks) num_bad += check.bad();
  const int status = num_bad > 0 ? kBadModel : kOk;
  const std::uint32_t crc = overall_checksum(files, checks);
  if (document != nullptr) {
    ordered_json verify = to_json(files, checks);
    verify["checksum"] = fmt::format("{:08x}", crc);
    (*document)["verify"] = std::move(verify);
    return status;
  }
  std::size_t listed = 0;
  for (const TensorCheck& check : checks) {
    if (!check.bad() || ++listed > kMaxListed) continue;
    const TensorInfo& tensor = files.tensors()[check.tensor];
    fmt::print("damaged       {} in {}: {}\n", tensor.name, files.file_name(tensor),
               describe(check));
  }
  fmt::print("verify        {} tensors read, {} damaged, checksum {:08x}\n", checks.size(), num_bad,
             crc);
  return status;
}

}  // namespace baltoro::cli
