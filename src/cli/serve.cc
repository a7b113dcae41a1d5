// `baltoro serve`: one model for many clients, over HTTP.
#include <fmt/format.h>
#include <pthread.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <csignal>
#include <cstdlib>
#include <future>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <thread>

#include "baltoro/chat.h"
#include "baltoro/scheduler.h"
#include "baltoro/version.h"
#include "cli/command.h"
#include "cli/serve_options.h"
#include "core/error.h"
#include "serve/api/api.h"

namespace baltoro::cli {
namespace {

using nlohmann::ordered_json;
using std::chrono::milliseconds;

// SIGTERM and SIGINT. They are blocked in this thread and those that it starts, and taken by one
// that waits for them.
class StopSignal {
 public:
  StopSignal() {
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGINT);
    pthread_sigmask(SIG_BLOCK, &signals, nullptr);
    // Who reads the log may go before the server does.
    std::signal(SIGPIPE, SIG_IGN);
    std::thread([signals, state = state_] { take_signals(signals, *state); }).detach();
  }

  // True once a signal has come.
  bool wait(milliseconds timeout) {
    std::unique_lock lock(state_->mutex);
    return state_->came.wait_for(lock, timeout, [this] { return state_->count > 0; });
  }

 private:
  struct State {
    std::mutex mutex;
    std::condition_variable came;
    int count = 0;
  };

  static void take_signals(const sigset_t& signals, State& state) {
    for (;;) {
      int signal = 0;
      sigwait(&signals, &signal);
      const std::lock_guard lock(state.mutex);
      if (++state.count > 1) std::_Exit(128 + signal);
      state.came.notify_all();
    }
  }

  std::shared_ptr<State> state_ = std::make_shared<State>();
};

// Each connection takes a file descriptor, and systems start processes with few.
void allow_connections(int max_connections) {
  constexpr rlim_t kOthers = 256;  // weights, the log, the surplus of connections
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  const rlim_t wanted = static_cast<rlim_t>(max_connections) + kOthers;
  if (limit.rlim_cur != RLIM_INFINITY && limit.rlim_cur < wanted) {
    limit.rlim_cur = limit.rlim_max == RLIM_INFINITY ? wanted : std::min(limit.rlim_max, wanted);
    setrlimit(RLIMIT_NOFILE, &limit);
  }
}

std::vector<std::string> model_names(const ServeOptions& options) {
  if (!options.names.empty()) return options.names;
  const std::filesystem::path dir = std::filesystem::weakly_canonical(options.model.dir);
  return {dir.filename().string()};
}

// The model with what answers requests; parts that use others stand behind them.
struct ServedModel {
  ServedModel(OpenModel open, const ServeOptions& options)
      : model(std::move(open)),
        scheduler(model.engine, scheduler_options(options)),
        api(serve::serve_model(scheduler, model.require_tokenizer("serve"), chat_format(options),
                               {.names = model_names(options),
                                .default_max_tokens = options.max_tokens,
                                .timeout = std::chrono::seconds(options.request_timeout)})) {}

  // Absent where the vocabulary has no format; the server then continues texts alone.
  std::optional<ChatFormat> chat_format(const ServeOptions& options) const {
    try {
      return ChatFormat::load(model.require_tokenizer("serve"), options.model.dir);
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kBadModel) throw;
      return std::nullopt;
    }
  }

  OpenModel model;
  Scheduler scheduler;
  serve::Api api;
};

class Server {
 public:
  Server(const ServeOptions& options, const std::vector<Setting>& settings)
      : options_(options),
        log_(std::make_shared<serve::AccessLog>(log_format(options))),
        front_(front_options(options), log_) {
    require_model_directory(options.model.dir, "serve");
    tell_settings(settings);
    allow_connections(options.max_connections);
    http_ = std::make_unique<serve::HttpServer>(
        http_options(options),
        serve::HttpServerHooks{
            .handler =
                [this](serve::HttpRequest request, std::shared_ptr<serve::HttpReply> reply) {
                  front_.handle(std::move(request), std::move(reply));
                },
            .admit = [this](serve::HttpRequest& request) { return front_.admit(request); },
            .refused =
                [this](int status, const serve::HttpRequest& request) {
                  front_.refused(status, request);
                }});
    front_.set_num_connections([http = http_.get()] { return http->num_connections(); });
    log_->event("listening", {{"url", http_->url()}});
  }

  int run() {
    load();
    while (!stop_.wait(milliseconds(1000))) {
    }
    drain();
    return kOk;
  }

 private:
  void tell_settings(const std::vector<Setting>& settings) const {
    log_->event("starting", {{"version", version()}});
    ordered_json defaults = ordered_json::object();
    for (const Setting& setting : settings) {
      if (setting.is_default()) {
        if (!setting.value.empty()) defaults[setting.name] = setting.value;
        continue;
      }
      log_->event("setting",
                  {{"name", setting.name}, {"value", setting.value}, {"from", setting.source}});
    }
    log_->event("defaults", defaults);
    if (front_.is_open_to_networks()) {
      log_->event(
          "warning",
          {{"text", "the server listens on a network and has no keys: everybody may use it"}});
    }
  }

  // Loading cannot be interrupted; a signal then ends the process, which has promised nothing yet.
  void load() {
    auto loading = std::async(std::launch::async, [this] {
      return open_model(options_.model, [this](double share) { front_.set_loaded_share(share); });
    });
    while (loading.wait_for(milliseconds(0)) != std::future_status::ready) {
      if (!stop_.wait(milliseconds(20))) continue;
      log_->event("stopped", {{"text", "while the model was loading"}});
      std::_Exit(kOk);
    }
    model_ = std::make_unique<ServedModel>(loading.get(), options_);
    front_.set_ready(
        {.api =
             [this](serve::HttpRequest request, std::shared_ptr<serve::HttpReply> reply) {
               model_->api.handle(request, reply);
             },
         .stats = [this] { return model_->scheduler.stats(); }});
    const EngineInfo& info = model_->model.engine->info();
    log_->event("ready", {{"model", model_names(options_).front()},
                          {"backend", info.backend},
                          {"threads", info.num_threads},
                          {"load_s", std::round(model_->model.load_seconds * 1e3) / 1e3},
                          {"url", http_->url()}});
  }

  void drain() {
    front_.set_draining();
    log_->event("draining",
                {{"connections", http_->num_connections()}, {"timeout_s", options_.drain_timeout}});
    http_->drain();
    const bool drained = http_->wait_drained(std::chrono::seconds(options_.drain_timeout));
    const std::size_t left = http_->num_connections();
    http_.reset();  // clients that are left are cut off, and their requests cancelled
    model_.reset();
    log_->event("stopped", {{"complete", drained}, {"cut_off", drained ? 0 : left}});
  }

  ServeOptions options_;
  StopSignal stop_;
  std::shared_ptr<serve::AccessLog> log_;
  serve::Front front_;
  std::unique_ptr<ServedModel> model_;
  std::unique_ptr<serve::HttpServer> http_;
};

}  // namespace

Command add_serve(CLI::App& root) {
  auto options = std::make_shared<ServeOptions>();
  CLI::App* app = root.add_subcommand("serve", "Answer the requests of many clients over HTTP");
  add_serve_options(*app, *options);
  app->footer(
      "Each option may also come from a variable, BALTORO_SERVE_PORT of --port, or from the file "
      "of\n"
      "--config, \"port\"; the command line wins over the variable, the variable over the file.\n"
      "Examples:\n"
      "  baltoro serve models/story\n"
      "  baltoro serve models/story --port 8000 --api-key-file keys.txt --log-format json\n"
      "  curl localhost:8080/v1/chat/completions -d '{\"messages\": [{\"role\": \"user\", "
      "\"content\": \"Hi\"}]}'\n"
      "SIGTERM or Ctrl-C finishes what was accepted, a second one ends at once. docs/serve.md "
      "tells\n"
      "the rest.");
  return {app, [options, app] {
            const std::vector<Setting> settings = resolve_serve_settings(*app, *options);
            return Server(*options, settings).run();
          }};
}

}  // namespace baltoro::cli
