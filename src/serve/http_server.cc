#include "serve/http_server.h"

#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/ip/v6_only.hpp>
#include <boost/asio/post.hpp>
#include <condition_variable>
#include <mutex>
#include <random>
#include <thread>

#include "core/error.h"
#include "core/log.h"
#include "serve/http_connection.h"

namespace baltoro::serve {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using Result = boost::system::error_code;

// Connections beyond the limit that are told so; those beyond these are closed unheard.
constexpr std::size_t kMaxSurplus = 64;
// When the process has no file descriptor left, accepting is tried again after this time.
constexpr std::chrono::milliseconds kAcceptPause{100};
// Of what the system holds for one client: a slow one must not have megabytes of it.
constexpr int kSendBufferBytes = 1 << 18;

tcp::endpoint parse_endpoint(const HttpServerOptions& options) {
  const std::string host = options.host == "localhost" ? "127.0.0.1" : options.host;
  Result result;
  const asio::ip::address address = asio::ip::make_address(host, result);
  if (result) {
    fail(ErrorCode::kUsage,
         "--host is {}; it must be an address of this machine, such as 127.0.0.1 (this machine "
         "alone), 0.0.0.0 or :: (all networks)",
         options.host);
  }
  return {address, options.port};
}

std::string random_prefix() {
  std::random_device device;
  return fmt::format("req-{:08x}", device());
}

// A client whose machine has vanished says nothing: after a minute of silence it is asked.
void probe_silent_clients(int socket) {
  const auto set = [socket](int level, int name, int value) {
    ::setsockopt(socket, level, name, &value, sizeof value);
  };
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, 60);
  set(IPPROTO_TCP, TCP_KEEPINTVL, 10);
  set(IPPROTO_TCP, TCP_KEEPCNT, 3);
  set(SOL_SOCKET, SO_SNDBUF, kSendBufferBytes);
}

}  // namespace

struct HttpServer::Impl {
  Impl(const HttpServerOptions& options, HttpServerHooks hooks)
      : workers(static_cast<std::size_t>(options.num_workers)),
        acceptor(io),
        accept_timer(io),
        context{.options = options,
                .hooks = std::move(hooks),
                .io = io,
                .workers = workers,
                .wakes = std::make_shared<Wakes>(io),
                .changed = [this] { on_changed(); },
                .id_prefix = random_prefix()} {
    listen();
    accept();
    thread = std::thread([this] { io.run(); });
  }

  ~Impl() {
    asio::post(io, [this] {
      stop_accepting();
      while (!context.connections.empty()) (*context.connections.begin())->close();
    });
    workers.join();
    work.reset();
    thread.join();
    context.wakes->close();
  }

  void listen() {
    const tcp::endpoint endpoint = parse_endpoint(context.options);
    try {
      acceptor.open(endpoint.protocol());
      acceptor.set_option(tcp::acceptor::reuse_address(true));
      // One address for all networks of both protocols, whatever the system's default.
      if (endpoint.protocol() == tcp::v6()) acceptor.set_option(asio::ip::v6_only(false));
      acceptor.bind(endpoint);
      acceptor.listen(asio::socket_base::max_listen_connections);
      acceptor.non_blocking(true);
      local = acceptor.local_endpoint();
    } catch (const boost::system::system_error& error) {
      fail(ErrorCode::kIo, "cannot listen on {} port {}: {}; another --host or --port may do",
           context.options.host, context.options.port, error.code().message());
    }
  }

  void accept() {
    acceptor.async_accept([this](Result result, tcp::socket socket) {
      if (!acceptor.is_open()) return;
      if (!result) {
        take(std::move(socket));
      } else if (result != asio::error::connection_aborted) {
        log::warning("cannot accept a connection: {}", result.message());
        accept_timer.expires_after(kAcceptPause);
        accept_timer.async_wait([this](Result) {
          if (acceptor.is_open()) accept();
        });
        return;
      }
      accept();
    });
  }

  void take(tcp::socket socket) {
    const std::size_t count = context.connections.size();
    if (count >= context.options.max_connections + kMaxSurplus) return;
    probe_silent_clients(socket.native_handle());
    const bool surplus = count >= context.options.max_connections;
    auto connection = std::make_shared<HttpConnection>(std::move(socket), context, surplus);
    context.connections.insert(connection);
    num_connections = context.connections.size();
    connection->start();
  }

  void stop_accepting() {
    Result ignored;
    acceptor.close(ignored);
    accept_timer.cancel();
  }

  // Connections that the system has made already may hold a request.
  void take_waiting() {
    while (acceptor.is_open()) {
      Result result;
      tcp::socket socket(io);
      acceptor.accept(socket, result);
      if (result) return;
      take(std::move(socket));
    }
  }

  void drain() {
    if (context.draining) return;
    context.draining = true;
    take_waiting();
    stop_accepting();
    const auto connections = context.connections;
    for (const auto& connection : connections) connection->drain();
    on_changed();
  }

  void on_changed() {
    num_connections = context.connections.size();
    const std::lock_guard lock(mutex);
    drained = context.draining && context.connections.empty();
    if (drained) condition.notify_all();
  }

  asio::io_context io{1};
  asio::thread_pool workers;
  asio::executor_work_guard<asio::io_context::executor_type> work{io.get_executor()};
  tcp::acceptor acceptor;
  asio::steady_timer accept_timer;
  ConnectionContext context;
  tcp::endpoint local;
  std::atomic<std::size_t> num_connections = 0;
  std::mutex mutex;
  std::condition_variable condition;
  bool drained = false;
  std::thread thread;
};

HttpServer::HttpServer(const HttpServerOptions& options, HttpServerHooks hooks)
    : impl_(std::make_unique<Impl>(options, std::move(hooks))) {}

HttpServer::~HttpServer() = default;

std::uint16_t HttpServer::port() const { return impl_->local.port(); }

std::string HttpServer::url() const {
  const asio::ip::address address = impl_->local.address();
  const std::string host = address.is_v6() ? "[" + address.to_string() + "]" : address.to_string();
  return fmt::format("http://{}:{}", host, port());
}

std::size_t HttpServer::num_connections() const { return impl_->num_connections; }

void HttpServer::drain() {
  asio::post(impl_->io, [impl = impl_.get()] { impl->drain(); });
}

bool HttpServer::wait_drained(std::chrono::milliseconds timeout) {
  std::unique_lock lock(impl_->mutex);
  return impl_->condition.wait_for(lock, timeout, [this] { return impl_->drained; });
}

}  // namespace baltoro::serve
