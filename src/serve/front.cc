#include "serve/front.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "serve/page/page.h"
#include "serve/tracked_reply.h"

namespace baltoro::serve {
namespace {

constexpr std::string_view kApiRoutes[] = {
    "/v1/chat/completions", "/v1/completions", "/v1/messages", "/v1/messages/count_tokens",
    "/v1/models",           "/tokenize",       "/detokenize"};

// Seconds that a browser may keep the answer to a preflight.
constexpr const char* kPreflightSeconds = "600";

bool is_page(const std::string& path) { return page_file(path).has_value(); }

// A word for the metrics: clients choose paths, and each would be a series of its own.
std::string route_of(const std::string& path) {
  if (path == "/health" || path == "/metrics") return path;
  if (path.starts_with("/v1/models/")) return "/v1/models";
  const auto* const known = std::find(std::begin(kApiRoutes), std::end(kApiRoutes), path);
  if (known != std::end(kApiRoutes)) return path;
  return is_page(path) ? "page" : "other";
}

// The name in "name:80", "[::1]:80", "name".
std::string_view without_port(std::string_view host) {
  const std::size_t bracket = host.find(']');
  const std::size_t colon = host.find(':', bracket == std::string_view::npos ? 0 : bracket);
  return host.substr(0, colon);
}

// Names that cannot be another site's: addresses, and localhost.
bool is_own_name(std::string_view name) {
  return name.starts_with('[') || name.empty() ||
         name.find_first_not_of("0123456789.") == std::string_view::npos ||
         HttpHeaders::same_name(name, "localhost") || name.ends_with(".localhost");
}

bool contains(const std::vector<std::string>& list, std::string_view word) {
  return std::any_of(list.begin(), list.end(),
                     [&](const std::string& item) { return HttpHeaders::same_name(item, word); });
}

bool is_read(const HttpRequest& request) {
  return request.method == "GET" || request.method == "HEAD";
}

}  // namespace

Front::Front(FrontOptions options, std::shared_ptr<const AccessLog> log)
    : options_(std::move(options)),
      log_(std::move(log)),
      metrics_(std::make_shared<ServerMetrics>()) {}

// A page of another site that a user of this machine opens could otherwise use the server through
// the user's browser: by a request that needs no permission to be sent, or by a name of its own
// that it lets point here.
std::optional<HttpError> Front::admit(HttpRequest& request) const {
  const std::string* host = request.headers.find("host");
  if (options_.loopback && options_.keys.empty() && host != nullptr) {
    const std::string_view name = without_port(*host);
    if (!is_own_name(name) && !contains(options_.allowed_hosts, name)) {
      return HttpError{.status = 403,
                       .message = fmt::format("the server is not known by the name {}; start it "
                                              "with --allow-host {}, or with a key",
                                              name, name),
                       .code = "host_not_allowed"};
    }
  }
  if (request.method == "OPTIONS") return std::nullopt;  // a preflight has neither key nor effect
  const std::string* origin = request.headers.find("origin");
  if (origin != nullptr && !origin_is_allowed(request, *origin)) {
    return HttpError{.status = 403,
                     .message = fmt::format("pages of {} may not use this server; start it with "
                                            "--cors-origin {} to let them",
                                            *origin, *origin),
                     .code = "origin_not_allowed"};
  }
  const bool open = options_.keys.empty() ||
                    (is_read(request) && (request.path == "/health" || is_page(request.path)));
  if (open) return std::nullopt;
  const std::optional<std::string_view> key = presented_key(request.headers);
  const std::optional<std::size_t> number = key ? options_.keys.match(*key) : std::nullopt;
  if (!number) {
    return HttpError{.status = 401,
                     .message = key ? "the API key is not one of this server's"
                                    : "an API key is needed: Authorization: Bearer KEY",
                     .code = "invalid_api_key"};
  }
  request.key_name = fmt::format("key-{}", *number + 1);
  return std::nullopt;
}

bool Front::origin_is_allowed(const HttpRequest& request, const std::string& origin) const {
  if (contains(options_.cors_origins, "*") || contains(options_.cors_origins, origin)) return true;
  // The page of this server itself. A proxy before it may speak https.
  const std::string* host = request.headers.find("host");
  const std::size_t scheme = origin.find("://");
  return host != nullptr && scheme != std::string::npos &&
         HttpHeaders::same_name(std::string_view(origin).substr(scheme + 3), *host);
}

void Front::handle(HttpRequest request, std::shared_ptr<HttpReply> reply) {
  RequestRecord record{.id = request.id,
                       .client_address = request.client_address,
                       .key_name = request.key_name,
                       .method = request.method,
                       .path = request.path,
                       .body = options_.log_prompts ? request.body : std::string(),
                       .usage = {}};
  ++metrics_->in_flight();
  RequestWatch watch{
      .first_token = [m = metrics_](double seconds) { m->first_token(seconds); },
      .between_tokens = [m = metrics_](double seconds) { m->between_tokens(seconds); },
      .done =
          [m = metrics_, log = log_, route = route_of(request.path)](const RequestRecord& done) {
            --m->in_flight();
            m->count_request(route, done.status, done.seconds);
            log->request(done);
          }};
  auto tracked =
      track(std::move(reply), std::move(record), common_headers(request), std::move(watch));
  answer(std::move(request), std::move(tracked));
}

void Front::refused(int status, const HttpRequest& request) {
  metrics_->count_request(route_of(request.path), status, 0);
  log_->request({.id = request.id,
                 .client_address = request.client_address,
                 .key_name = {},
                 .method = request.method,
                 .path = request.path,
                 .body = {},
                 .status = status,
                 .usage = {}});
}

HttpHeaders Front::common_headers(const HttpRequest& request) const {
  HttpHeaders headers = {{"X-Request-Id", request.id},
                         {"X-Content-Type-Options", "nosniff"},
                         {"Cache-Control", "no-store"}};
  const std::string* origin = request.headers.find("origin");
  if (options_.cors_origins.empty()) return headers;
  headers.add("Vary", "Origin");
  if (origin != nullptr && origin_is_allowed(request, *origin)) {
    headers.add("Access-Control-Allow-Origin", *origin);
    headers.add("Access-Control-Expose-Headers", "X-Request-Id, Retry-After");
  }
  return headers;
}

void Front::answer(HttpRequest request, const std::shared_ptr<HttpReply>& reply) {
  const bool own = request.path == "/health" || request.path == "/metrics" || is_page(request.path);
  if (request.method == "OPTIONS") {
    preflight(request, *reply);
  } else if (own && !is_read(request)) {
    send_error(*reply, {.status = 405, .message = request.path + " takes GET and HEAD"},
               ErrorShape::kOpenAi);
  } else if (request.path == "/health") {
    health(*reply);
  } else if (request.path == "/metrics") {
    metrics(*reply);
  } else if (own) {
    send_page(request, *reply);
  } else if (const auto ready = backend()) {
    ready->api(std::move(request), reply);
  } else {
    send_error(*reply,
               {.status = 503,
                .message = "the model is loading; GET /health tells when it is ready",
                .code = "model_loading",
                .retry_after_seconds = 1},
               error_shape(request));
  }
}

void Front::health(HttpReply& reply) const {
  const bool loaded = backend() != nullptr;
  const bool draining = draining_;
  const std::string body =
      draining ? R"({"status":"draining"})"
      : loaded ? R"({"status":"ok"})"
               : fmt::format(R"({{"status":"loading","loaded":{:.3f}}})", loaded_share_.load());
  reply.send(loaded && !draining ? 200 : 503, {{"Content-Type", "application/json"}}, body);
}

void Front::metrics(HttpReply& reply) const {
  std::optional<SchedulerStats> stats;
  if (const auto ready = backend()) stats = ready->stats();
  std::size_t connections = 0;
  {
    const std::lock_guard lock(mutex_);
    if (num_connections_) connections = num_connections_();
  }
  reply.send(200, {{"Content-Type", kMetricsContentType}}, metrics_->text(connections, stats));
}

void Front::preflight(const HttpRequest& request, HttpReply& reply) const {
  const std::string* origin = request.headers.find("origin");
  const std::string* asked = request.headers.find("access-control-request-headers");
  HttpHeaders headers = {{"Allow", "GET, HEAD, POST, OPTIONS"}};
  if (origin != nullptr && !options_.cors_origins.empty() && origin_is_allowed(request, *origin)) {
    headers.add("Access-Control-Allow-Methods", "GET, POST, OPTIONS");
    headers.add("Access-Control-Allow-Headers", asked == nullptr ? "*" : *asked);
    headers.add("Access-Control-Max-Age", kPreflightSeconds);
  }
  reply.send(204, std::move(headers), "");
}

std::shared_ptr<const FrontBackend> Front::backend() const {
  const std::lock_guard lock(mutex_);
  return backend_;
}

void Front::set_ready(FrontBackend backend) {
  const std::lock_guard lock(mutex_);
  backend_ = std::make_shared<const FrontBackend>(std::move(backend));
}

void Front::set_num_connections(std::function<std::size_t()> num_connections) {
  const std::lock_guard lock(mutex_);
  num_connections_ = std::move(num_connections);
}

}  // namespace baltoro::serve
