#include "e2e/checkpoint.h"

#include <stdlib.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <stdexcept>

#include "core/dtype.h"
#include "io/checkpoint_files.h"

namespace baltoro::testing {

namespace fs = std::filesystem;

TempDir::TempDir() {
  std::string name = (fs::temp_directory_path() / "baltoro-test-XXXXXX").string();
  if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error("no temporary directory");
  path_ = name;
}

TempDir::~TempDir() {
  std::error_code error;
  fs::remove_all(path_, error);
}

nlohmann::json read_json(const fs::path& path) {
  std::ifstream file(path);
  return nlohmann::json::parse(file);
}

std::vector<float> read_tensor(const fs::path& file, const std::string& name) {
  CheckpointFiles files(file);
  const TensorInfo* info = files.find(name);
  if (info == nullptr) throw std::runtime_error(file.string() + " has no tensor " + name);
  std::vector<std::byte> bytes(info->bytes);
  files.files()[info->file].read(info->offset, bytes);
  const std::size_t count = bytes.size() / dtype_bytes(info->dtype);
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) {
    const std::byte* at = bytes.data() + i * dtype_bytes(info->dtype);
    if (info->dtype == DType::kBf16) {
      std::uint16_t bits = 0;
      std::memcpy(&bits, at, 2);
      values[i] = bf16_to_f32(bits);
    } else if (info->dtype == DType::kF32) {
      std::memcpy(&values[i], at, 4);
    } else {
      std::int32_t word = 0;
      std::memcpy(&word, at, 4);
      values[i] = static_cast<float>(word);
    }
  }
  return values;
}

int run_shell(const std::string& command, std::string* output) {
  output->clear();
  std::FILE* pipe = ::popen((command + " 2>&1").c_str(), "r");
  if (pipe == nullptr) return -1;
  std::array<char, 4096> buffer;
  while (const std::size_t n = std::fread(buffer.data(), 1, buffer.size(), pipe)) {
    output->append(buffer.data(), n);
  }
  return ::pclose(pipe);
}

TokenId argmax(std::span<const float> row) {
  return static_cast<TokenId>(std::ranges::max_element(row) - row.begin());
}

std::vector<TokenId> greedy(Session& session, int count) {
  std::vector<TokenId> ids;
  for (int i = 0; i < count; ++i) {
    ids.push_back(argmax(session.logits()));
    session.decode(ids.back());
  }
  return ids;
}

double nmse(std::span<const float> a, std::span<const float> b) {
  double error = 0, power = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double x = static_cast<double>(a[i]), y = static_cast<double>(b[i]);
    error += (x - y) * (x - y);
    power += y * y;
  }
  return error / power;
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace baltoro::testing
