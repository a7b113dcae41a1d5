// Which of command line, environment and file an option's value comes from.
#include "cli/settings.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "baltoro/error.h"
#include "cli/arguments.h"
#include "cli/serve_options.h"

namespace baltoro::cli {
namespace {

class SettingsTest : public ::testing::Test {
 protected:
  ~SettingsTest() override {
    for (const std::string& name : variables_) ::unsetenv(name.c_str());
    std::filesystem::remove(file_);
  }
  void set(const std::string& name, const std::string& value) {
    ::setenv(name.c_str(), value.c_str(), 1);
    variables_.push_back(name);
  }
  std::string config(const std::string& text) {
    std::ofstream(file_) << text;
    return file_;
  }
  std::vector<Setting> resolve(std::vector<std::string> arguments) {
    options_ = ServeOptions();
    CLI::App app("", "serve");
    add_serve_options(app, options_);
    std::reverse(arguments.begin(), arguments.end());
    app.parse(arguments);
    return resolve_serve_settings(app, options_);
  }
  std::string refusal(const std::vector<std::string>& arguments) {
    try {
      resolve(arguments);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kUsage) << error.what();
      return error.what();
    }
    return "";
  }
  static Setting find(const std::vector<Setting>& settings, const std::string& name) {
    for (const Setting& setting : settings) {
      if (setting.name == name) return setting;
    }
    return {};
  }

  ServeOptions options_;
  std::vector<std::string> variables_;
  std::string file_ = std::filesystem::temp_directory_path() /
                      ("settings_test." + std::to_string(::getpid()) + ".json");
};

TEST_F(SettingsTest, TheCommandLineWinsOverTheEnvironmentAndThatOverTheFile) {
  set("BALTORO_SERVE_PORT", "2");
  set("BALTORO_SERVE_MAX_RUNNING", "5");
  const std::string file =
      config(R"({"port": 3, "max_running": 6, "max_waiting": 7, "model": "from-file"})");
  const auto settings = resolve({"--port", "1", "--config", file});
  EXPECT_EQ(options_.port, 1);
  EXPECT_EQ(options_.scheduler.max_running, 5);
  EXPECT_EQ(options_.scheduler.max_waiting, 7u);
  EXPECT_EQ(options_.model.dir, "from-file");
  EXPECT_EQ(find(settings, "port").source, "command line");
  EXPECT_EQ(find(settings, "max-running").source, "BALTORO_SERVE_MAX_RUNNING");
  EXPECT_EQ(find(settings, "max-waiting").source, file);
  EXPECT_EQ(find(settings, "max-waiting").value, "7");
  EXPECT_EQ(find(settings, "host").source, "default");
  EXPECT_EQ(find(settings, "host").value, "127.0.0.1");
}

TEST_F(SettingsTest, FlagsAndListsComeFromEverywhere) {
  set("BALTORO_SERVE_LOG_PROMPTS", "true");
  set("BALTORO_SERVE_CORS_ORIGIN", "https://a.example,https://b.example");
  const std::string file = config(R"({"deterministic": true, "api_key": ["k1", "k2"]})");
  const auto settings = resolve({"dir", "--config", file});
  EXPECT_TRUE(options_.log_prompts);
  EXPECT_TRUE(options_.model.deterministic);
  EXPECT_EQ(options_.cors_origins,
            (std::vector<std::string>{"https://a.example", "https://b.example"}));
  EXPECT_EQ(options_.api_keys, (std::vector<std::string>{"k1", "k2"}));
  EXPECT_EQ(find(settings, "api-key").value, "***, ***");
}

TEST_F(SettingsTest, TheFileMayBeNamedByTheEnvironment) {
  set("BALTORO_SERVE_CONFIG", config(R"({"port": 3})"));
  resolve({"dir"});
  EXPECT_EQ(options_.port, 3);
}

TEST_F(SettingsTest, ErrorsBeginWithTheSource) {
  set("BALTORO_SERVE_PORT", "99999");
  EXPECT_EQ(refusal({"dir"}), "BALTORO_SERVE_PORT: --port is 99999; it must be at most 65535");
  ::unsetenv("BALTORO_SERVE_PORT");
  EXPECT_EQ(refusal({"dir", "--config", config(R"({"port": "x"})")}),
            file_ + ": \"port\": --port is \"x\"; it must be a number");
  EXPECT_EQ(refusal({"dir", "--config", config(R"({"port": [1, 2]})")}),
            file_ + ": \"port\" is a list; the option takes one value");
  EXPECT_EQ(refusal({"dir", "--config", config(R"({"port": {"a": 1}})")}),
            file_ + ": \"port\" is object; it must be a text, a number, true or false");
  EXPECT_TRUE(refusal({"dir", "--config", config("{\"port\": }")}).starts_with(file_));
  EXPECT_TRUE(refusal({"dir", "--config", config("[]")}).starts_with(file_));
}

TEST_F(SettingsTest, UnknownNamesAreErrors) {
  EXPECT_EQ(refusal({"dir", "--config", config(R"({"prot": 1})")}),
            file_ + ": \"prot\" is no option; did you mean \"port\"?");
  EXPECT_NE(refusal({"dir", "--config", config(R"({"config": "other.json"})")}), "");
  set("BALTORO_SERVE_PROT", "1");
  EXPECT_EQ(refusal({"dir"}),
            "the environment has BALTORO_SERVE_PROT, which is no option; did you mean "
            "BALTORO_SERVE_PORT?");
}

TEST_F(SettingsTest, AModelMustBeNamed) {
  EXPECT_TRUE(refusal({}).starts_with("no model"));
  set("BALTORO_SERVE_MODEL", "here");
  resolve({});
  EXPECT_EQ(options_.model.dir, "here");
}

}  // namespace
}  // namespace baltoro::cli
