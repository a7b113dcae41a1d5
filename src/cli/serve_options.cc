#include "cli/serve_options.h"

#include <chrono>

#include "cli/arguments.h"
#include "cli/format.h"
#include "core/error.h"
#include "serve/held_wakes.h"

namespace baltoro::cli {
namespace {

constexpr int kMaxSeconds = 86'400;

// An option that may be given several times.
CLI::Option* add_repeated(CLI::App& app, const char* flag, std::vector<std::string>& target,
                          const char* description) {
  return app.add_option(flag, target, description)->allow_extra_args(false)->type_name("TEXT");
}

CLI::Option* add_seconds(CLI::App& app, const char* flag, int& target, const char* description) {
  return add_number(app, flag, target, description, {.min = 1, .max = kMaxSeconds});
}

CLI::Option* add_state_bytes(CLI::App& app, const char* flag, std::optional<std::uint64_t>& target,
                             const char* description) {
  const auto store = [&target, flag](const std::string& text) {
    target.reset();
    if (text != "auto") target = parse_bytes(flag, text, ", or auto");
  };
  return app.add_option_function<std::string>(flag, store, description)
      ->type_name("BYTES")
      ->default_str("auto");
}

void add_network_options(CLI::App& app, ServeOptions& options) {
  const char* const group = "Network";
  app.add_option("--host", options.host,
                 "Address to listen on; 0.0.0.0 or :: for all networks, then with keys")
      ->capture_default_str()
      ->group(group);
  add_number(app, "--port", options.port, "0 is any that is free", {.min = 0, .max = 65'535})
      ->group(group);
  add_repeated(app, "--api-key", options.api_keys,
               "A key that lets clients in; others see it in the list of processes, so prefer the "
               "file or the environment")
      ->group(group);
  app.add_option("--api-key-file", options.api_key_file, "File of keys, one a line")->group(group);
  add_repeated(app, "--cors-origin", options.cors_origins,
               "A site whose pages may use the server, such as https://example.com; * for all")
      ->group(group);
  add_repeated(app, "--allow-host", options.allowed_hosts,
               "A name beside localhost by which clients may call a server without keys")
      ->group(group);
}

void add_limit_options(CLI::App& app, ServeOptions& options) {
  const char* const group = "Limits";
  add_number(app, "--max-connections", options.max_connections, "Beyond it clients get 503",
             {.min = 1, .max = 1'000'000})
      ->group(group);
  add_number(app, "--max-header-bytes", options.max_header_bytes, "Beyond it 431",
             {.min = 1024, .max = 1 << 20})
      ->group(group);
  add_number(app, "--max-body-bytes", options.max_body_bytes, "Beyond it 413",
             {.min = 1024, .max = std::uint64_t{1} << 32})
      ->group(group);
  add_seconds(app, "--header-timeout", options.header_timeout, "Seconds for a request's header")
      ->group(group);
  add_seconds(app, "--body-timeout", options.body_timeout, "Seconds for its body")->group(group);
  add_seconds(app, "--idle-timeout", options.idle_timeout, "Seconds between requests")
      ->group(group);
  add_seconds(app, "--write-timeout", options.write_timeout,
              "Seconds in which a client may take nothing of its answer")
      ->group(group);
  add_seconds(app, "--request-timeout", options.request_timeout,
              "Seconds for an answer, waiting included")
      ->group(group);
  add_seconds(app, "--drain-timeout", options.drain_timeout,
              "Seconds for accepted requests after SIGTERM")
      ->group(group);
  add_number(app, "--max-tokens", options.max_tokens,
             "Tokens of an answer where neither the request nor the model says", {.min = 1})
      ->group(group);
}

void add_scheduler_options(CLI::App& app, ServeOptions& options) {
  const char* const group = "Scheduling";
  SchedulerOptions& scheduler = options.scheduler;
  add_number(app, "--max-running", scheduler.max_running, "Answers that are made at once",
             {.min = 1, .max = 4096})
      ->group(group);
  add_number(app, "--max-waiting", scheduler.max_waiting,
             "Requests that may wait; beyond it clients get 429", {.min = 0, .max = 1'000'000})
      ->group(group);
  add_number(app, "--max-per-client", scheduler.max_per_client,
             "Requests of one key, or of one address without keys; 0 is no limit",
             {.min = 0, .max = 1'000'000})
      ->group(group);
  add_number(app, "--prompt-rows", scheduler.prompt_rows,
             "Tokens of prompts in a step, a multiple of 64: more reads faster, fewer lets answers "
             "flow",
             {.min = 64, .max = 1 << 20})
      ->group(group);
  add_choice(app, "--reuse", options.reuse, {"live", "exact", "off"},
             "What prompts continue from: any state, those that reading made, none")
      ->group(group);
  add_state_bytes(app, "--state-memory", scheduler.state_bytes,
                  "For states and caches of running requests and kept prefixes")
      ->group(group);
  add_state_bytes(app, "--prefix-memory", scheduler.prefix_bytes, "Of it, for kept prefixes")
      ->group(group);
}

}  // namespace

void add_serve_options(CLI::App& app, ServeOptions& options) {
  const serve::HttpServerOptions defaults;
  options.max_header_bytes = defaults.max_header_bytes;
  options.max_body_bytes = defaults.max_body_bytes;
  add_model_options(app, options.model);
  app.get_option("MODEL")->required(false);  // the environment or the file may name it
  app.add_option("--config", options.config, "File of options in JSON: {\"port\": 8000, ...}");
  add_repeated(app, "--model-name", options.names,
               "A name of the model for clients; default: its directory's");
  add_choice(app, "--log-format", options.log_format, {"text", "json"}, "Of lines on stderr");
  app.add_flag("--log-prompts", options.log_prompts, "Log the text of requests too");
  add_network_options(app, options);
  add_limit_options(app, options);
  add_scheduler_options(app, options);
}

std::vector<Setting> resolve_serve_settings(CLI::App& app, const ServeOptions& options) {
  const std::vector<Setting> settings = resolve_settings(app, {.env_prefix = "BALTORO_SERVE_",
                                                               .config_option = "--config",
                                                               .secret = {"api-key"},
                                                               .silent = {"help"}});
  if (options.model.dir.empty()) {
    fail(ErrorCode::kUsage,
         "no model: give MODEL, the directory of a checkpoint (see baltoro serve --help)");
  }
  return settings;
}

serve::HttpServerOptions http_options(const ServeOptions& options) {
  serve::HttpServerOptions http;
  http.host = options.host;
  http.port = static_cast<std::uint16_t>(options.port);
  http.max_connections = static_cast<std::size_t>(options.max_connections);
  http.max_header_bytes = options.max_header_bytes;
  http.max_body_bytes = options.max_body_bytes;
  http.max_total_body_bytes = std::max(http.max_total_body_bytes, 4 * http.max_body_bytes);
  http.header_timeout = std::chrono::seconds(options.header_timeout);
  http.body_timeout = std::chrono::seconds(options.body_timeout);
  http.idle_timeout = std::chrono::seconds(options.idle_timeout);
  http.write_timeout = std::chrono::seconds(options.write_timeout);
  return http;
}

serve::FrontOptions front_options(const ServeOptions& options) {
  serve::FrontOptions front;
  for (const std::string& key : options.api_keys) front.keys.add(key, "--api-key");
  if (!options.api_key_file.empty()) {
    front.keys.add_lines(read_text(options.api_key_file), options.api_key_file);
  }
  front.cors_origins = options.cors_origins;
  front.allowed_hosts = options.allowed_hosts;
  front.log_prompts = options.log_prompts;
  front.loopback =
      options.host == "localhost" || options.host == "::1" || options.host.starts_with("127.");
  return front;
}

serve::LogFormat log_format(const ServeOptions& options) {
  return options.log_format == "json" ? serve::LogFormat::kJson : serve::LogFormat::kText;
}

SchedulerOptions scheduler_options(const ServeOptions& options) {
  SchedulerOptions scheduler = options.scheduler;
  scheduler.reuse = options.reuse == "off"     ? PrefixReuse::kOff
                    : options.reuse == "exact" ? PrefixReuse::kExact
                                               : PrefixReuse::kLive;
  scheduler.around_tokens = [](const std::function<void()>& hand_out) {
    const serve::HeldWakes held;
    hand_out();
  };
  return scheduler;
}

}  // namespace baltoro::cli
