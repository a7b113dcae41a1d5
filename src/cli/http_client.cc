#include "cli/http_client.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/connect.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http.hpp>
#include <charconv>
#include <chrono>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "baltoro/version.h"
#include "core/error.h"

namespace baltoro::cli {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using boost::system::error_code;
using std::chrono::milliseconds;
using tcp = asio::ip::tcp;

// How soon the user's wish to stop is seen.
constexpr milliseconds kPatience{50};
// A server that runs accepts at once; a firewall may never answer.
constexpr milliseconds kConnectTimeout{10'000};

class Exchange {
 public:
  Exchange(const ServerUrl& url, const std::function<bool()>& cancelled)
      : url_(url), cancelled_(cancelled), socket_(io_) {
    parser_.body_limit(std::numeric_limits<std::uint64_t>::max());
  }

  HttpAnswer run(const HttpCall& call, const std::function<void(std::string_view)>& on_piece) {
    connect();
    if (!stopped_) send(call);
    if (!stopped_) read_header();
    if (!stopped_) read_body(on_piece);
    answer_.cancelled = stopped_;
    return std::move(answer_);
  }

 private:
  // Waits for the operation that `start` begins with the handler that it is given.
  template <typename Start>
  error_code wait(const Start& start, std::optional<milliseconds> limit = std::nullopt) {
    stopped_ = stopped_ || (cancelled_ && cancelled_());
    if (stopped_) return asio::error::operation_aborted;
    std::optional<error_code> result;
    start([&result](error_code error, const auto&...) { result = error; });
    const auto begin = std::chrono::steady_clock::now();
    bool late = false;
    while (!result) {
      io_.restart();
      io_.run_for(kPatience);
      if (result || stopped_ || late) continue;
      stopped_ = cancelled_ && cancelled_();
      late = limit && std::chrono::steady_clock::now() - begin > *limit;
      error_code ignored;
      if (stopped_ || late) socket_.close(ignored);
    }
    return late ? error_code(asio::error::timed_out) : *result;
  }

  // Addresses, and localhost, need no resolver: a static program has none of its own.
  std::vector<tcp::endpoint> endpoints(error_code& error) {
    const auto port = static_cast<std::uint16_t>(std::stoul(url_.port));
    const asio::ip::address address = asio::ip::make_address(url_.host, error);
    if (!error) return {{address, port}};
    error = {};
    if (url_.host == "localhost") {
      return {{asio::ip::address_v4::loopback(), port}, {asio::ip::address_v6::loopback(), port}};
    }
    std::vector<tcp::endpoint> found;
    for (const auto& entry : tcp::resolver(io_).resolve(url_.host, url_.port, error)) {
      found.push_back(entry.endpoint());
    }
    return found;
  }

  void connect() {
    error_code error;
    const std::vector<tcp::endpoint> places = endpoints(error);
    if (!error) {
      error = wait([&](auto handler) { asio::async_connect(socket_, places, std::move(handler)); },
                   kConnectTimeout);
    }
    if (!error || stopped_) return;
    fail(ErrorCode::kIo, "{} cannot be reached: {}; is the server running there?", url_.text,
         error.message());
  }

  void check(error_code error, const char* doing) const {
    if (!error || stopped_) return;
    if (error.category() == http::make_error_code(http::error::bad_version).category() &&
        error != http::error::end_of_stream && error != http::error::partial_message) {
      fail(ErrorCode::kIo, "{} does not speak HTTP: {}", url_.text, error.message());
    }
    fail(ErrorCode::kIo, "{} broke off the connection while {}: {}", url_.text, doing,
         error.message());
  }

  void send(const HttpCall& call) {
    http::request<http::string_body> request;
    request.method_string(call.method);
    request.target(url_.base + call.path);
    request.version(11);
    const bool v6 = url_.host.find(':') != std::string::npos;
    request.set(http::field::host,
                fmt::format("{}{}{}:{}", v6 ? "[" : "", url_.host, v6 ? "]" : "", url_.port));
    request.set(http::field::user_agent, fmt::format("baltoro/{}", version()));
    request.set(http::field::connection, "close");
    if (!call.key.empty()) request.set(http::field::authorization, "Bearer " + call.key);
    if (!call.body.empty()) request.set(http::field::content_type, "application/json");
    request.body() = call.body;
    request.prepare_payload();
    // A server that refuses a request may answer before it has read it: its answer tells more.
    wait([&](auto handler) { http::async_write(socket_, request, std::move(handler)); });
  }

  void read_header() {
    check(wait([&](auto handler) {
            http::async_read_header(socket_, buffer_, parser_, std::move(handler));
          }),
          "the request was sent");
    if (stopped_) return;
    const auto& message = parser_.get();
    answer_.status = message.result_int();
    answer_.content_type = std::string(message[http::field::content_type]);
    answer_.retry_after = std::string(message[http::field::retry_after]);
  }

  void read_body(const std::function<void(std::string_view)>& on_piece) {
    const bool streams =
        on_piece && answer_.status == 200 && answer_.content_type.starts_with("text/event-stream");
    std::string& body = parser_.get().body();
    while (!parser_.is_done()) {
      const error_code error = wait([&](auto handler) {
        http::async_read_some(socket_, buffer_, parser_, std::move(handler));
      });
      check(error, "it answered");
      if (stopped_) return;
      if (!streams) continue;
      on_piece(std::exchange(body, {}));
    }
    if (streams) on_piece(std::exchange(body, {}));
    answer_.body = std::move(body);
  }

  const ServerUrl& url_;
  const std::function<bool()>& cancelled_;
  asio::io_context io_;
  tcp::socket socket_;
  boost::beast::flat_buffer buffer_;
  http::response_parser<http::string_body> parser_;
  HttpAnswer answer_;
  bool stopped_ = false;
};

[[noreturn]] void refuse_url(const std::string& name, const std::string& text, const char* why) {
  fail(ErrorCode::kUsage, "{} is \"{}\"; {}", name, text, why);
}

bool is_port(std::string_view text) {
  unsigned port = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
  return error == std::errc() && end == text.data() + text.size() && port >= 1 && port <= 65'535;
}

// Where nothing in it can end a line of a header, or begin another part of the URL.
bool is_plain(std::string_view text) {
  return text.find_first_of("?#@\\\"<>{}|^` ") == std::string_view::npos &&
         std::all_of(text.begin(), text.end(), [](char c) { return c > 0x20 && c < 0x7f; });
}

}  // namespace

ServerUrl parse_server_url(const std::string& name, const std::string& text) {
  constexpr const char* kWanted = "it must be like http://127.0.0.1:8080";
  constexpr std::string_view kScheme = "http://";
  if (text.starts_with("https://")) {
    refuse_url(name, text,
               "TLS is not spoken here; use http:// to a server of this machine or a tunnel to it");
  }
  if (!text.starts_with(kScheme) || !is_plain(text)) refuse_url(name, text, kWanted);
  std::string_view rest = std::string_view(text).substr(kScheme.size());
  const std::size_t slash = std::min(rest.find('/'), rest.size());
  std::string_view path = rest.substr(slash);
  rest = rest.substr(0, slash);
  while (path.ends_with('/')) path.remove_suffix(1);

  ServerUrl url;
  const bool v6 = rest.starts_with('[');
  const std::size_t end = v6 ? rest.find(']') : std::min(rest.find(':'), rest.size());
  if (end == std::string_view::npos) refuse_url(name, text, kWanted);
  url.host = rest.substr(v6 ? 1 : 0, v6 ? end - 1 : end);
  const std::string_view port = rest.substr(end + (v6 ? 1 : 0));
  url.port = port.empty() ? "80" : port.substr(1);
  if (url.host.empty() || (!port.empty() && port[0] != ':')) refuse_url(name, text, kWanted);
  if (!is_port(url.port)) refuse_url(name, text, "its port must be within [1, 65535]");
  url.text = text.substr(0, kScheme.size() + rest.size());
  url.base = std::string(path) + (path.ends_with("/v1") ? "" : "/v1");
  return url;
}

HttpAnswer ask_server(const ServerUrl& url, const HttpCall& call,
                      const std::function<void(std::string_view)>& on_piece,
                      const std::function<bool()>& cancelled) {
  return Exchange(url, cancelled).run(call, on_piece);
}

}  // namespace baltoro::cli
