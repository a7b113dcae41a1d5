// What stands between the connections and the handlers: who is let in, which part of the server
// answers, the headers that all answers have, the log and the metrics. Without sockets.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "serve/access_log.h"
#include "serve/api_keys.h"
#include "serve/http.h"
#include "serve/http_error.h"
#include "serve/server_metrics.h"

namespace baltoro::serve {

struct FrontOptions {
  ApiKeys keys = {};  // none: everybody is let in
  // Pages of other sites that may use the server: "https://example.com", or "*" for all.
  std::vector<std::string> cors_origins = {};
  // Names beside localhost by which the server may be called while it has no keys and listens on
  // this machine alone.
  std::vector<std::string> allowed_hosts = {};
  bool loopback = true;  // the server listens on this machine alone
  bool log_prompts = false;
};

// What answers once the model is loaded.
struct FrontBackend {
  HttpHandler api;
  std::function<SchedulerStats()> stats;
};

// Any thread. Outlives the server; replies may outlive it.
class Front {
 public:
  Front(FrontOptions options, std::shared_ptr<const AccessLog> log);

  // Clients of other machines need no key.
  bool is_open_to_networks() const { return !options_.loopback && options_.keys.empty(); }

  // For HttpServerHooks.
  std::optional<HttpError> admit(HttpRequest& request) const;
  void handle(HttpRequest request, std::shared_ptr<HttpReply> reply);
  void refused(int status, const HttpRequest& request);

  // Until set_ready(), the interface answers 503, and /health tells how much of the model is
  // loaded.
  void set_loaded_share(double share) { loaded_share_ = share; }
  void set_ready(FrontBackend backend);
  void set_draining() { draining_ = true; }
  // Where the number of connections comes from.
  void set_num_connections(std::function<std::size_t()> num_connections);

 private:
  bool origin_is_allowed(const HttpRequest& request, const std::string& origin) const;
  HttpHeaders common_headers(const HttpRequest& request) const;
  std::shared_ptr<const FrontBackend> backend() const;
  void answer(HttpRequest request, const std::shared_ptr<HttpReply>& reply);
  void health(HttpReply& reply) const;
  void metrics(HttpReply& reply) const;
  void preflight(const HttpRequest& request, HttpReply& reply) const;

  FrontOptions options_;
  std::shared_ptr<const AccessLog> log_;
  std::shared_ptr<ServerMetrics> metrics_;
  mutable std::mutex mutex_;  // of the two below
  std::function<std::size_t()> num_connections_;
  std::shared_ptr<const FrontBackend> backend_;
  std::atomic<double> loaded_share_ = 0;
  std::atomic<bool> draining_ = false;
};

}  // namespace baltoro::serve
