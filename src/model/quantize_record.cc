#include "model/quantize_record.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

#include "core/error.h"
#include "io/crc32.h"
#include "io/file_reader.h"
#include "io/json_file.h"
#include "io/output_file.h"

namespace baltoro {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using nlohmann::ordered_json;

// Of the rules that turn values into codes: another version would mix two encodings in one model.
constexpr int kVersion = 1;
constexpr std::uint64_t kMaxRecordBytes = std::uint64_t{1} << 30;
constexpr std::uint64_t kBlockBytes = std::uint64_t{4} << 20;

std::string checksum(const fs::path& path) {
  const FileReader file(path);
  std::vector<std::byte> block;
  std::uint32_t crc = 0;
  for (std::uint64_t at = 0; at < file.size(); at += kBlockBytes) {
    block.resize(std::min(kBlockBytes, file.size() - at));
    file.read(at, block);
    crc = crc32(block, crc);
  }
  return fmt::format("{:08x}", crc);
}

ordered_json to_json(const QuantizedTensor& tensor) {
  return {{"name", tensor.name},
          {"component", tensor.component},
          {"format", action_name(tensor.action)},
          {"values", tensor.values},
          {"bytes_in", tensor.bytes_in},
          {"bytes_out", tensor.bytes_out},
          {"squares", tensor.error.squares},
          {"error_squares", tensor.error.error_squares},
          {"nmse", tensor.error.nmse()},
          {"largest_error", tensor.error.largest}};
}

QuantizedTensor from_json(const json& record) {
  QuantizedTensor tensor;
  record.at("name").get_to(tensor.name);
  record.at("component").get_to(tensor.component);
  const bool is_int8 = record.at("format") == action_name(QuantizeAction::kMxint8);
  tensor.action = is_int8 ? QuantizeAction::kMxint8 : QuantizeAction::kMxfp4;
  record.at("values").get_to(tensor.values);
  record.at("bytes_in").get_to(tensor.bytes_in);
  record.at("bytes_out").get_to(tensor.bytes_out);
  record.at("squares").get_to(tensor.error.squares);
  record.at("error_squares").get_to(tensor.error.error_squares);
  record.at("largest_error").get_to(tensor.error.largest);
  return tensor;
}

}  // namespace

ordered_json quantize_arguments(const std::string& config_text, const CheckpointFiles& files,
                                const QuantizeTargets& targets) {
  ordered_json shards = ordered_json::array();
  for (const FileReader& file : files.files()) {
    std::error_code error;
    const auto time = fs::last_write_time(file.path(), error);
    if (error) fail(ErrorCode::kIo, "{}: {}", file.path().string(), error.message());
    shards.push_back({{"file", file.path().filename().string()},
                      {"bytes", file.size()},
                      {"changed", time.time_since_epoch().count()}});
  }
  const std::uint32_t config_crc = crc32(std::as_bytes(std::span(config_text)));
  return {{"version", kVersion},
          {"experts", targets.mxfp4_experts ? "mxfp4" : "keep"},
          {"trunk", targets.mxint8_trunk ? "int8" : "keep"},
          {"config", fmt::format("{:08x}", config_crc)},
          {"source", shards}};
}

QuantizeRecord::QuantizeRecord(fs::path dst, ordered_json arguments)
    : dst_(std::move(dst)), dir_(dst_ / "quantize"), arguments_(std::move(arguments)) {
  const fs::path plan = dir_ / "plan.json";
  if (!fs::exists(plan)) {
    if (fs::exists(dst_)) refuse_checkpoint(dst_);
    return;
  }
  const JsonDocument before = parse_json(read_text_file(plan, kMaxRecordBytes), plan.string());
  for (const auto& [key, value] : arguments_.items()) {
    if (before->value(key, json()) == json(value)) continue;
    fail(ErrorCode::kUsage,
         "{} was begun with another {}; repeat the first call, or give an empty directory",
         dst_.string(), key == "source" ? "state of the source's files" : key);
  }
}

QuantizeRecord::~QuantizeRecord() {
  if (lock_ >= 0) close(lock_);
}

void QuantizeRecord::begin() {
  std::error_code error;
  fs::create_directories(dir_, error);
  if (error) fail(ErrorCode::kIo, "{}: cannot create: {}", dir_.string(), error.message());
  const fs::path lock = dir_ / "lock";
  lock_ = open(lock.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (lock_ < 0) {
    fail(ErrorCode::kIo, "{}: cannot create: {}", lock.string(),
         std::generic_category().message(errno));
  }
  if (flock(lock_, LOCK_EX | LOCK_NB) != 0) {
    fail(ErrorCode::kUsage, "{}: another baltoro quantize writes there; wait for its end",
         dst_.string());
  }
  const fs::path plan = dir_ / "plan.json";
  if (!fs::exists(plan)) write_text_file(plan, arguments_.dump(2) + "\n");
}

fs::path QuantizeRecord::record_of(const std::string& file) const {
  return dir_ / (file + ".json");
}

json QuantizeRecord::load(const std::string& file) const {
  const fs::path path = record_of(file);
  std::error_code error;
  const std::uintmax_t bytes = fs::file_size(dst_ / file, error);
  if (error || !fs::exists(path)) return {};
  const JsonDocument record = parse_json(read_text_file(path, kMaxRecordBytes), path.string());
  return record->value("bytes", json()) == bytes ? *record : json();
}

bool QuantizeRecord::claims(const std::string& file) const { return !load(file).is_null(); }

std::optional<std::vector<QuantizedTensor>> QuantizeRecord::finished(
    const std::string& file) const {
  const json record = load(file);
  if (record.is_null() || record.value("crc32", "") != checksum(dst_ / file)) return std::nullopt;
  std::vector<QuantizedTensor> tensors;
  try {
    for (const json& tensor : record.at("tensors")) tensors.push_back(from_json(tensor));
  } catch (const json::exception&) {
    return std::nullopt;  // edited by someone: the shard is made again
  }
  return tensors;
}

void QuantizeRecord::finish(const std::string& file,
                            const std::vector<QuantizedTensor>& tensors) const {
  ordered_json list = ordered_json::array();
  for (const QuantizedTensor& tensor : tensors) list.push_back(to_json(tensor));
  const ordered_json record = {
      {"bytes", fs::file_size(dst_ / file)}, {"crc32", checksum(dst_ / file)}, {"tensors", list}};
  write_text_file(record_of(file), record.dump(1) + "\n");
}

}  // namespace baltoro
