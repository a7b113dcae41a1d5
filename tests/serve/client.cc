#include "serve/client.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <stdexcept>
#include <utility>

namespace baltoro::serve {
namespace {

constexpr int kTimeoutMs = 20'000;

bool readable(int socket, int timeout_ms) {
  pollfd event{socket, POLLIN, 0};
  return ::poll(&event, 1, timeout_ms) == 1;
}

}  // namespace

TestClient::TestClient(std::uint16_t port, bool v6) {
  socket_ = ::socket(v6 ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  int result = -1;
  if (v6) {
    sockaddr_in6 address{};
    address.sin6_family = AF_INET6;
    address.sin6_port = htons(port);
    address.sin6_addr = in6addr_loopback;
    result = ::connect(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof address);
  } else {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    result = ::connect(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof address);
  }
  if (result != 0) {
    close();
    throw std::runtime_error("cannot connect");
  }
}

TestClient::~TestClient() { close(); }

TestClient::TestClient(TestClient&& other) noexcept
    : socket_(std::exchange(other.socket_, -1)),
      buffer_(std::move(other.buffer_)),
      ended_(other.ended_) {}

bool TestClient::send(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(sent));
  }
  return true;
}

void TestClient::get(std::string_view path, std::string_view more_headers) {
  send(fmt::format("GET {} HTTP/1.1\r\nHost: localhost\r\n{}\r\n", path, more_headers));
}

void TestClient::post(std::string_view path, std::string_view body, std::string_view more_headers) {
  send(fmt::format("POST {} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n{}\r\n{}", path,
                   body.size(), more_headers, body));
}

bool TestClient::fill() {
  if (ended_ || !readable(socket_, kTimeoutMs)) return false;
  char bytes[65536];
  const ssize_t got = ::recv(socket_, bytes, sizeof bytes, 0);
  if (got <= 0) {
    ended_ = true;
    return false;
  }
  buffer_.append(bytes, static_cast<std::size_t>(got));
  return true;
}

std::string TestClient::line() {
  std::size_t end = 0;
  while ((end = buffer_.find("\r\n")) == std::string::npos) {
    if (!fill()) return {};
  }
  std::string text = buffer_.substr(0, end);
  buffer_.erase(0, end + 2);
  return text;
}

void TestClient::take(std::size_t bytes, std::string& to) {
  while (buffer_.size() < bytes && fill()) {
  }
  const std::size_t taken = std::min(bytes, buffer_.size());
  to += buffer_.substr(0, taken);
  buffer_.erase(0, taken);
}

TestResponse TestClient::read(bool head) {
  TestResponse response;
  const std::string first = line();
  if (!first.starts_with("HTTP/1.1 ")) return response;
  response.status = std::stoi(first.substr(9));
  for (std::string text = line(); !text.empty(); text = line()) {
    const std::size_t colon = text.find(": ");
    std::string name = text.substr(0, colon);
    std::transform(name.begin(), name.end(), name.begin(), ::tolower);
    response.headers[name] = text.substr(colon + 2);
  }
  if (head || response.status == 100 || response.status == 204) {
    response.whole = true;
  } else if (response.headers.contains("content-length")) {
    const std::size_t length = std::stoul(response.headers["content-length"]);
    take(length, response.body);
    response.whole = response.body.size() == length;
  } else if (response.headers.contains("transfer-encoding")) {
    for (std::string size = line(); !size.empty(); size = line()) {
      const std::size_t length = std::stoul(size, nullptr, 16);
      take(length, response.body);
      line();
      response.whole = length == 0;
      if (response.whole) break;
    }
  } else {
    while (fill()) {
    }
    response.body = std::exchange(buffer_, {});
    response.whole = ended_;
  }
  return response;
}

std::string TestClient::read_some(std::chrono::milliseconds wait, std::size_t bytes) {
  if (buffer_.empty() && readable(socket_, static_cast<int>(wait.count()))) fill();
  std::string text;
  const std::size_t taken = std::min(bytes, buffer_.size());
  text = buffer_.substr(0, taken);
  buffer_.erase(0, taken);
  return text;
}

bool TestClient::closed_within(std::chrono::milliseconds wait) {
  const auto until = std::chrono::steady_clock::now() + wait;
  while (!ended_) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        until - std::chrono::steady_clock::now());
    if (left.count() <= 0 || !readable(socket_, static_cast<int>(left.count()))) return false;
    fill();
  }
  return true;
}

void TestClient::close() {
  if (socket_ >= 0) ::close(std::exchange(socket_, -1));
}

void TestClient::reset() {
  const linger now{1, 0};
  ::setsockopt(socket_, SOL_SOCKET, SO_LINGER, &now, sizeof now);
  close();
}

}  // namespace baltoro::serve
