// One connection of the server: reads a request, has it answered, sends the answer, and again.
// While an answer is made it goes on reading, since that is how it learns that the client is gone.
//
// All members are used on the thread of the io_context alone.
#pragma once

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <memory>
#include <optional>
#include <string>
#include <unordered_set>

#include "serve/http_server.h"
#include "serve/outbox.h"
#include "serve/wakes.h"

namespace baltoro::serve {

class HttpConnection;

// What all connections share; outlives them.
struct ConnectionContext {
  HttpServerOptions options;
  HttpServerHooks hooks;
  boost::asio::io_context& io;
  boost::asio::thread_pool& workers;
  std::shared_ptr<Wakes> wakes;
  std::function<void()> changed;  // the set has lost a connection
  std::unordered_set<std::shared_ptr<HttpConnection>> connections = {};
  std::atomic<std::size_t> body_bytes = 0;
  std::atomic<std::uint64_t> num_requests = 0;
  std::string id_prefix = {};
  bool draining = false;
};

class HttpConnection : public std::enable_shared_from_this<HttpConnection> {
 public:
  // `surplus`: there are too many connections; its first request is refused.
  HttpConnection(boost::asio::ip::tcp::socket socket, ConnectionContext& context, bool surplus);

  void start();
  // Ends after the request that it is at, or soon where there is none.
  void drain();
  // Ends now.
  void close();
  // Sends what the answer has by now.
  void flush();

 private:
  using Parser = boost::beast::http::request_parser<boost::beast::http::string_body>;
  using Result = boost::system::error_code;
  enum class State { kIdle, kHeader, kBody, kAnswer, kLinger, kClosed };

  void begin_idle();
  void read_more();
  void on_more(Result result, std::size_t bytes);
  void read_header();
  void on_header(Result result);
  void read_body();
  void on_body(Result result);
  bool header_is_good();
  bool charge_body();
  void on_read_error(Result result);
  void dispatch();
  void refuse(const HttpError& error);
  void open_outbox(AnswerForm form);
  void write_some();
  void on_written(Result result, std::size_t bytes);
  void finish_answer();
  void linger();
  void arm(std::chrono::milliseconds timeout);
  void disarm();
  void on_deadline();

  boost::asio::ip::tcp::socket socket_;
  ConnectionContext& context_;
  boost::asio::steady_timer timer_;
  std::uint64_t timer_round_ = 0;  // which arm() a firing belongs to
  boost::beast::flat_buffer buffer_;
  std::optional<Parser> parser_;
  HttpRequest request_;  // the one that is read, or was read last
  std::shared_ptr<void> body_charge_;
  std::shared_ptr<Outbox> outbox_;
  std::string out_;
  std::size_t out_begin_ = 0;
  std::string client_;
  State state_ = State::kIdle;
  bool surplus_ = false;
  bool reading_ = false;  // read_more() is under way
  bool writing_ = false;
  bool timed_out_ = false;  // a read was cancelled by its deadline
  bool answer_complete_ = false;
  bool keep_alive_ = false;
};

}  // namespace baltoro::serve
