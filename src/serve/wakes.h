// How other threads tell the thread of the connections that a connection has something to send.
#pragma once

#include <boost/asio/io_context.hpp>
#include <memory>
#include <mutex>
#include <vector>

#include "serve/held_wakes.h"

namespace baltoro::serve {

class HttpConnection;

// Any thread; outlives its io_context where a thread still holds wakes.
class Wakes : public std::enable_shared_from_this<Wakes> {
 public:
  explicit Wakes(boost::asio::io_context& io) : io_(&io) {}
  // The connection's flush() follows on the thread of the io_context: soon, or, where this thread
  // holds wakes back, after that.
  void add(std::weak_ptr<HttpConnection> connection);
  // Nothing follows any more.
  void close();

 private:
  friend class HeldWakes;
  void post(std::vector<std::weak_ptr<HttpConnection>> connections);

  std::mutex mutex_;
  boost::asio::io_context* io_;  // null: closed
};

}  // namespace baltoro::serve
