// A client of the server for tests: one blocking socket, bytes as they are written and read.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace baltoro::serve {

struct TestResponse {
  int status = 0;                              // 0: the connection ended before an answer
  std::map<std::string, std::string> headers;  // names in lower case
  std::string body;                            // chunks put together
  bool whole = false;                          // it ended as its header said
};

class TestClient {
 public:
  // Connects to 127.0.0.1, or to ::1. Throws std::runtime_error.
  explicit TestClient(std::uint16_t port, bool v6 = false);
  ~TestClient();
  TestClient(TestClient&& other) noexcept;
  TestClient(const TestClient&) = delete;

  // False where the server has closed.
  bool send(std::string_view bytes);
  // GET without anything else.
  void get(std::string_view path, std::string_view more_headers = "");
  void post(std::string_view path, std::string_view body, std::string_view more_headers = "");
  // `head`: of a HEAD request, so without a body.
  TestResponse read(bool head = false);
  // What comes within the time, up to a number of bytes.
  std::string read_some(std::chrono::milliseconds wait, std::size_t bytes = 65536);
  // True where the server closes within the time, whatever comes before.
  bool closed_within(std::chrono::milliseconds wait);
  void close();
  // Closes with a reset, as a process that was killed with unread data.
  void reset();

 private:
  bool fill();  // one read; false at the end
  std::string line();
  void take(std::size_t bytes, std::string& to);

  int socket_ = -1;
  std::string buffer_;
  bool ended_ = false;
};

}  // namespace baltoro::serve
