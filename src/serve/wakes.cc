#include "serve/wakes.h"

#include <boost/asio/post.hpp>
#include <utility>

#include "serve/http_connection.h"

namespace baltoro::serve {
namespace {

thread_local HeldWakes* t_held = nullptr;

}  // namespace

void Wakes::add(std::weak_ptr<HttpConnection> connection) {
  if (t_held != nullptr) {
    if (t_held->wakes_ == nullptr) t_held->wakes_ = shared_from_this();
    if (t_held->wakes_.get() == this) {
      t_held->connections_.push_back(std::move(connection));
      return;
    }
  }
  post({std::move(connection)});
}

void Wakes::close() {
  const std::lock_guard lock(mutex_);
  io_ = nullptr;
}

void Wakes::post(std::vector<std::weak_ptr<HttpConnection>> connections) {
  const std::lock_guard lock(mutex_);
  if (io_ == nullptr) return;
  boost::asio::post(*io_, [connections = std::move(connections)] {
    for (const auto& connection : connections) {
      if (const auto alive = connection.lock()) alive->flush();
    }
  });
}

HeldWakes::HeldWakes() { t_held = this; }

HeldWakes::~HeldWakes() {
  t_held = nullptr;
  if (!connections_.empty()) wakes_->post(std::move(connections_));
}

}  // namespace baltoro::serve
