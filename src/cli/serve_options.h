// The options of `baltoro serve`.
#pragma once

#include <CLI/App.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "baltoro/scheduler.h"
#include "cli/model_options.h"
#include "cli/settings.h"
#include "serve/access_log.h"
#include "serve/front.h"
#include "serve/http_server.h"

namespace baltoro::cli {

struct ServeOptions {
  ModelOptions model;
  std::string config;
  std::vector<std::string> names;
  std::string host = "127.0.0.1";
  int port = 8080;
  std::vector<std::string> api_keys;
  std::string api_key_file;
  std::vector<std::string> cors_origins;
  std::vector<std::string> allowed_hosts;
  std::string log_format = "text";
  bool log_prompts = false;
  int max_connections = 2048;
  std::uint64_t max_header_bytes = 0;
  std::uint64_t max_body_bytes = 0;
  int header_timeout = 10;  // seconds, as all below
  int body_timeout = 60;
  int idle_timeout = 75;
  int write_timeout = 30;
  int request_timeout = 600;
  int drain_timeout = 60;
  std::int64_t max_tokens = 4096;
  SchedulerOptions scheduler;
  std::string reuse = "live";
};

void add_serve_options(CLI::App& app, ServeOptions& options);

// Reads what the command line does not give from the environment and the configuration file. Throws
// Error{kUsage}.
std::vector<Setting> resolve_serve_settings(CLI::App& app, const ServeOptions& options);

serve::HttpServerOptions http_options(const ServeOptions& options);
// Reads the file of keys. Throws Error{kUsage, kIo}.
serve::FrontOptions front_options(const ServeOptions& options);
serve::LogFormat log_format(const ServeOptions& options);
SchedulerOptions scheduler_options(const ServeOptions& options);

}  // namespace baltoro::cli
