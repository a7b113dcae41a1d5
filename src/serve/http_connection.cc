#include "serve/http_connection.h"

#include <fmt/format.h>

#include <boost/asio/post.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/http/read.hpp>
#include <utility>

#include "core/log.h"
#include "serve/http_target.h"

namespace baltoro::serve {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using std::chrono::milliseconds;

constexpr std::size_t kReadBytes = 4096;
// What a client may send ahead while its request is answered. Beyond it the connection is not read,
// and the end of the client is seen when writing fails.
constexpr std::size_t kMaxAheadBytes = 65536;
// Bytes on their way when the server begins to drain still arrive within this time.
constexpr milliseconds kDrainGrace{250};
// Closed at once, a client that still sends would lose the answer to a reset: it is given this
// time, and more where the rest of a refused body is on its way.
constexpr milliseconds kLinger{1'000};
constexpr milliseconds kLingerOverBody{5'000};

// Bytes of a request body, given back when the last owner of the charge goes.
std::shared_ptr<void> body_charge(std::atomic<std::size_t>& total, std::size_t bytes) {
  total += bytes;
  return {nullptr, [&total, bytes](void*) { total -= bytes; }};
}

HttpHeaders copy_headers(const http::fields& fields) {
  HttpHeaders headers;
  for (const auto& field : fields) {
    headers.add(std::string(field.name_string()), std::string(field.value()));
  }
  return headers;
}

void run_handler(const HttpHandler& handler, HttpRequest request,
                 const std::shared_ptr<HttpReply>& reply) {
  const auto fail = [&, shape = error_shape(request)](const char* what) {
    log::write(log::Level::kError, fmt::format("a handler failed: {}", what));
    send_error(*reply, {.status = 500, .message = "internal error"}, shape);
  };
  try {
    handler(std::move(request), reply);
  } catch (const std::exception& error) {
    fail(error.what());
  } catch (...) {
    fail("an exception of an unknown type");
  }
}

}  // namespace

HttpConnection::HttpConnection(asio::ip::tcp::socket socket, ConnectionContext& context,
                               bool surplus)
    : socket_(std::move(socket)), context_(context), timer_(context.io), surplus_(surplus) {
  Result ignored;
  socket_.set_option(asio::ip::tcp::no_delay(true), ignored);
  client_ = socket_.remote_endpoint(ignored).address().to_string();
}

void HttpConnection::start() {
  begin_idle();
  if (context_.draining) drain();
}

void HttpConnection::drain() {
  if (outbox_) outbox_->last_request();
  if (state_ == State::kIdle && buffer_.size() == 0) arm(kDrainGrace);
}

void HttpConnection::close() {
  if (state_ == State::kClosed) return;
  state_ = State::kClosed;
  const auto self = shared_from_this();
  disarm();
  Result ignored;
  socket_.close(ignored);
  body_charge_.reset();
  if (outbox_) outbox_->close();
  outbox_.reset();
  context_.connections.erase(self);
  context_.changed();
}

void HttpConnection::begin_idle() {
  state_ = State::kIdle;
  parser_.reset();
  const HttpServerOptions& options = context_.options;
  if (buffer_.size() == 0) {
    if (!reading_) buffer_.shrink_to_fit();
    arm(context_.draining ? kDrainGrace : surplus_ ? options.header_timeout : options.idle_timeout);
    read_more();
  } else if (reading_) {
    // The next request is here already; the read that waits for more of it would stand in its way.
    Result ignored;
    socket_.cancel(ignored);
  } else {
    read_header();
  }
}

void HttpConnection::read_more() {
  if (reading_ || state_ == State::kClosed) return;
  if (state_ == State::kLinger) {
    buffer_.clear();
  } else if (buffer_.size() >= kMaxAheadBytes) {
    return;
  }
  reading_ = true;
  socket_.async_read_some(buffer_.prepare(kReadBytes),
                          [self = shared_from_this()](Result result, std::size_t bytes) {
                            self->on_more(result, bytes);
                          });
}

void HttpConnection::on_more(Result result, std::size_t bytes) {
  reading_ = false;
  if (state_ == State::kClosed) return;
  buffer_.commit(bytes);
  if (state_ == State::kIdle && buffer_.size() > 0 &&
      (!result || result == asio::error::operation_aborted)) {
    read_header();
  } else if (!result) {
    read_more();
  } else if (result != asio::error::operation_aborted) {
    // Half a connection is enough for the rest of an answer that is made, not for waiting for one.
    const bool sending = state_ == State::kAnswer && answer_complete_ && writing_;
    if (sending && result == asio::error::eof) {
      keep_alive_ = false;
    } else {
      close();
    }
  }
}

void HttpConnection::read_header() {
  state_ = State::kHeader;
  timed_out_ = false;
  parser_.emplace();
  parser_->header_limit(static_cast<std::uint32_t>(context_.options.max_header_bytes));
  parser_->body_limit(context_.options.max_body_bytes);
  arm(context_.options.header_timeout);
  http::async_read_header(
      socket_, buffer_, *parser_,
      [self = shared_from_this()](Result result, std::size_t) { self->on_header(result); });
}

void HttpConnection::on_header(Result result) {
  if (state_ == State::kClosed) return;
  const auto& message = parser_->get();
  request_ = HttpRequest{};
  request_.method = std::string(message.method_string());
  request_.client_address = client_;
  request_.headers = copy_headers(message);
  request_.id =
      request_id(request_.headers, context_.id_prefix, context_.num_requests.fetch_add(1));
  // A header that announces too large a body has been read all the same, and says who asks for what.
  if (result && result != http::error::body_limit) {
    on_read_error(result);
    return;
  }
  if (!header_is_good()) return;
  if (result) {
    on_read_error(result);
    return;
  }
  if (!charge_body()) return;
  if (parser_->is_done()) {
    dispatch();
  } else {
    read_body();
  }
}

// False where the request has been refused.
bool HttpConnection::header_is_good() {
  std::optional<HttpError> error;
  const auto& message = parser_->get();
  if (surplus_) {
    error = HttpError{.status = 503,
                      .message = fmt::format("the server has {} connections, its limit",
                                             context_.options.max_connections),
                      .retry_after_seconds = 1};
  } else {
    error = read_target(std::string_view(message.target().data(), message.target().size()),
                        message.version(), request_);
    if (!error && context_.hooks.admit) error = context_.hooks.admit(request_);
  }
  if (error) refuse(*error);
  return !error;
}

// Counts the body before it is there. False where the request has been refused.
bool HttpConnection::charge_body() {
  if (parser_->is_done()) return true;
  const auto length = parser_->content_length();
  const std::size_t bytes =
      length ? static_cast<std::size_t>(*length) : context_.options.max_body_bytes;
  if (context_.body_bytes + bytes > context_.options.max_total_body_bytes) {
    refuse({.status = 503,
            .message = fmt::format("the requests being read have {} bytes, and {} more would pass "
                                   "the server's limit of {}",
                                   context_.body_bytes.load(), bytes,
                                   context_.options.max_total_body_bytes),
            .retry_after_seconds = 1});
    return false;
  }
  body_charge_ = body_charge(context_.body_bytes, bytes);
  return true;
}

void HttpConnection::read_body() {
  state_ = State::kBody;
  timed_out_ = false;
  arm(context_.options.body_timeout);
  const auto read = [self = shared_from_this()] {
    http::async_read(self->socket_, self->buffer_, *self->parser_,
                     [self](Result result, std::size_t) { self->on_body(result); });
  };
  const std::string* expect = request_.headers.find("expect");
  if (expect == nullptr || buffer_.size() > 0) {
    read();
    return;
  }
  static constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";
  asio::async_write(socket_, asio::buffer(kContinue),
                    [self = shared_from_this(), read](Result result, std::size_t) {
                      if (self->state_ == State::kClosed) return;
                      if (result) {
                        self->on_read_error(result);
                      } else {
                        read();
                      }
                    });
}

void HttpConnection::on_body(Result result) {
  if (state_ == State::kClosed) return;
  if (result) {
    on_read_error(result);
  } else {
    dispatch();
  }
}

void HttpConnection::on_read_error(Result result) {
  const HttpServerOptions& options = context_.options;
  const bool in_header = state_ == State::kHeader;
  if (timed_out_) {
    const milliseconds limit = in_header ? options.header_timeout : options.body_timeout;
    refuse({.status = 408,
            .message = fmt::format("the {} of the request did not arrive within {} s",
                                   in_header ? "header" : "body",
                                   std::chrono::duration<double>(limit).count())});
  } else if (result == http::error::header_limit) {
    refuse({.status = 431,
            .message = fmt::format("the header has more than {} bytes, the server's limit",
                                   options.max_header_bytes)});
  } else if (result == http::error::body_limit) {
    refuse({.status = 413,
            .message = fmt::format("the body has more than {} bytes, the server's limit",
                                   options.max_body_bytes)});
  } else if (result == http::error::end_of_stream || result == http::error::partial_message ||
             result.category() != http::make_error_code(http::error::bad_version).category()) {
    close();  // the client is gone
  } else {
    refuse({.status = 400,
            .message = fmt::format("this is no request of HTTP/1.1: {}", result.message())});
  }
}

void HttpConnection::dispatch() {
  auto& message = parser_->get();
  const bool keep_alive = message.keep_alive() && !context_.draining;
  open_outbox({.chunked = message.version() >= 11,
               .head_only = message.method() == http::verb::head,
               .keep_alive = keep_alive,
               .error_shape = error_shape(request_)});
  request_.body = std::move(message.body());
  asio::post(context_.workers,
             [&context = context_, reply = make_reply(outbox_), request = std::move(request_),
              charge = std::exchange(body_charge_, nullptr)]() mutable {
               run_handler(context.hooks.handler, std::move(request), reply);
             });
  read_more();
}

void HttpConnection::refuse(const HttpError& error) {
  body_charge_.reset();
  if (context_.hooks.refused) context_.hooks.refused(error.status, request_);
  open_outbox({.chunked = false, .head_only = request_.method == "HEAD", .keep_alive = false});
  send_error(*make_reply(outbox_), error, error_shape(request_), request_.id);
}

void HttpConnection::open_outbox(AnswerForm form) {
  state_ = State::kAnswer;
  answer_complete_ = false;
  disarm();
  outbox_ = std::make_shared<Outbox>(
      form, context_.options.max_pending_bytes,
      [wakes = context_.wakes, weak = weak_from_this()] { wakes->add(weak); });
}

void HttpConnection::flush() {
  if (state_ != State::kAnswer) return;
  if (outbox_->overflowed()) {
    close();
    return;
  }
  if (writing_) return;
  Outbox::Taken taken = outbox_->take();
  answer_complete_ = taken.complete;
  keep_alive_ = taken.keep_alive;
  if (!taken.bytes.empty()) {
    out_ = std::move(taken.bytes);
    out_begin_ = 0;
    write_some();
  } else if (answer_complete_) {
    finish_answer();
  } else {
    disarm();
  }
}

void HttpConnection::write_some() {
  writing_ = true;
  arm(context_.options.write_timeout);
  socket_.async_write_some(asio::buffer(out_) + out_begin_,
                           [self = shared_from_this()](Result result, std::size_t bytes) {
                             self->on_written(result, bytes);
                           });
}

void HttpConnection::on_written(Result result, std::size_t bytes) {
  writing_ = false;
  if (state_ == State::kClosed) return;
  if (result) {
    close();
    return;
  }
  out_begin_ += bytes;
  if (out_begin_ < out_.size()) {
    write_some();
  } else {
    out_.clear();
    flush();
  }
}

void HttpConnection::finish_answer() {
  outbox_->close();
  outbox_.reset();
  if (keep_alive_) {  // said before the server began to drain, it may have brought the next request
    begin_idle();
  } else {
    linger();
  }
}

// The answer is sent. The client closes when it has read it; what it still sends is dropped.
void HttpConnection::linger() {
  state_ = State::kLinger;
  Result ignored;
  socket_.shutdown(asio::ip::tcp::socket::shutdown_send, ignored);
  arm(parser_ && !parser_->is_done() ? kLingerOverBody : kLinger);
  read_more();
}

void HttpConnection::arm(milliseconds timeout) {
  timer_.expires_after(timeout);
  timer_.async_wait([self = shared_from_this(), round = ++timer_round_](Result) {
    if (round == self->timer_round_) self->on_deadline();
  });
}

void HttpConnection::disarm() {
  ++timer_round_;
  timer_.cancel();
}

void HttpConnection::on_deadline() {
  if (state_ == State::kHeader || state_ == State::kBody) {
    // The read ends with an error, and that answers 408.
    timed_out_ = true;
    Result ignored;
    socket_.cancel(ignored);
  } else {
    close();
  }
}

}  // namespace baltoro::serve
