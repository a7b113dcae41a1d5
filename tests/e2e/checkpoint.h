// Checkpoints and expected results for end-to-end tests.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "baltoro/engine.h"
#include "baltoro/session.h"

namespace baltoro::testing {

// A new empty folder, removed with its content at the end.
class TempDir {
 public:
  TempDir();
  ~TempDir();
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

nlohmann::json read_json(const std::filesystem::path& path);

// The values of a tensor of F32, BF16 or I32 of a safetensors file, as f32.
std::vector<float> read_tensor(const std::filesystem::path& file, const std::string& name);

// Runs a shell command; returns its exit status, and what it wrote in `output`.
int run_shell(const std::string& command, std::string* output);

// The next `count` most likely tokens, each fed back.
std::vector<TokenId> greedy(Session& session, int count);

TokenId argmax(std::span<const float> row);

// sum (a - b)^2 / sum b^2
double nmse(std::span<const float> a, std::span<const float> b);

double median(std::vector<double> values);

}  // namespace baltoro::testing
