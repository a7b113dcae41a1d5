// The client's side of HTTP for `baltoro chat --server`: one request a connection, answers of any
// length, and an end whenever the user wants it.
#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace baltoro::cli {

// "http://127.0.0.1:8080" and "http://127.0.0.1:8080/v1" are the same server.
struct ServerUrl {
  std::string text;  // "http://127.0.0.1:8080"
  std::string host;  // without brackets
  std::string port;
  std::string base;  // in front of the API's paths: "/v1"
};

// Throws Error{kUsage} that begins with `name`: "--server is localhost; ...".
ServerUrl parse_server_url(const std::string& name, const std::string& text);

struct HttpAnswer {
  int status = 0;
  std::string content_type;
  std::string retry_after;
  std::string body;        // what `on_piece` did not take
  bool cancelled = false;  // before the answer was complete
};

struct HttpCall {
  std::string method;
  std::string path;  // behind the base
  std::string body = {};
  std::string key = {};  // empty: none
};

// Asks once. Pieces of the body of a stream of events with status 200 go to `on_piece` as they come.
// Throws Error{kIo} where the server cannot be reached, is silent where it should accept a
// connection, or breaks off; and what `on_piece` throws.
HttpAnswer ask_server(const ServerUrl& url, const HttpCall& call,
                      const std::function<void(std::string_view)>& on_piece = {},
                      const std::function<bool()>& cancelled = {});

}  // namespace baltoro::cli
