// The way of an answer from the threads that make it to the connection that sends it: bytes of
// HTTP/1.1 in a bounded buffer, and the news that the client is gone the other way. Knows no
// socket.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "serve/http.h"
#include "serve/http_error.h"

namespace baltoro::serve {

// What the request says about the form of its answer.
struct AnswerForm {
  bool chunked = true;     // HTTP/1.1; a stream to an older client ends with the connection
  bool head_only = false;  // HEAD
  bool keep_alive = true;  // further requests may follow on the connection
  ErrorShape error_shape = ErrorShape::kOpenAi;  // of the answer that nobody made
};

// Thread-safe. The reply's side puts in, the connection's side takes out.
class Outbox {
 public:
  // `wake` tells the connection that there is something to take. It must only leave a message, and
  // is never called after close(). A stream may have `max_pending_bytes` waiting for the client.
  Outbox(AnswerForm form, std::size_t max_pending_bytes, std::function<void()> wake);

  // As in HttpReply.
  void send(int status, const HttpHeaders& headers, std::string_view body);
  void begin_stream(int status, const HttpHeaders& headers);
  bool write(std::string_view chunk);
  void end();
  void on_close(std::function<void()> callback);
  // Nobody will call any of the above again.
  void abandon();

  struct Taken {
    std::string bytes;
    bool complete = false;    // nothing comes behind these bytes
    bool keep_alive = false;  // what the head of the answer said
  };
  // What waits; counts as pending until the next take().
  Taken take();
  // The client was too slow: cut it off.
  bool overflowed() const;
  // The connection will take no further request.
  void last_request();
  // The connection is gone. Calls the callback of on_close() where the answer was not complete.
  void close();

 private:
  enum class State { kNew, kStreaming, kComplete, kClosed };
  void put_head(int status, const HttpHeaders& headers, const std::string& length);
  // True where the connection is to be woken, which is done without the lock: it may run at once,
  // and needs the lock.
  bool ask_to_wake();
  void wake();

  std::mutex wake_mutex_;
  std::function<void()> wake_;  // under wake_mutex_
  mutable std::mutex mutex_;    // of all below
  AnswerForm form_;
  std::size_t max_pending_bytes_;
  std::function<void()> on_close_;
  std::string waiting_;
  std::size_t taken_bytes_ = 0;
  State state_ = State::kNew;
  bool overflow_ = false;
  bool awake_ = false;  // woken since the last take()
};

// The reply of an outbox; dropping it abandons the outbox.
std::shared_ptr<HttpReply> make_reply(std::shared_ptr<Outbox> outbox);

}  // namespace baltoro::serve
