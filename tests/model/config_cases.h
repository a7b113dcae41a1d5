// The released configurations as JSON to change, and the error that a text gives. Shared by the
// tests of the configuration.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "baltoro/error.h"
#include "model/config.h"
#include "paths.h"

namespace baltoro {

inline const std::filesystem::path kConfigs = test_data_dir() / "configs";
inline const std::filesystem::path kFixtures = test_data_dir() / "fixtures";

inline nlohmann::json read_json(const std::filesystem::path& path) {
  std::ifstream file(path);
  return nlohmann::json::parse(file);
}

inline nlohmann::json k3() { return read_json(kConfigs / "kimi_k3.json"); }
inline nlohmann::json linear() { return read_json(kConfigs / "kimi_linear_48b.json"); }

inline ModelConfig parse(const nlohmann::json& config) {
  return parse_config(config.dump(), "config.json");
}

// The error that parsing gives, or a failure of the test.
inline Error error_of_text(const std::string& text) {
  try {
    parse_config(text, "config.json");
  } catch (const Error& error) {
    return error;
  }
  ADD_FAILURE() << "no error for " << text.substr(0, 200);
  return Error(ErrorCode::kInternal, "");
}
inline Error error_of(const nlohmann::json& config) { return error_of_text(config.dump()); }

}  // namespace baltoro
