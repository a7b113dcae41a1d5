// The chunks of a streamed chat completion, put together.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "baltoro/chat.h"

namespace baltoro::cli {

struct ChatStreamUsage {
  std::int64_t prompt_tokens = 0;
  std::int64_t cached_tokens = 0;
  std::int64_t completion_tokens = 0;
};

// One thread at a time.
class ChatStream {
 public:
  explicit ChatStream(std::function<void(const ChatDelta&)> on_delta)
      : on_delta_(std::move(on_delta)) {}

  // The data of one event. Throws Error{kIo} for what is no chunk, naming the field, and with the
  // server's message where it is an error.
  void feed(std::string_view data);

  // Whether a chunk has said how the answer ended.
  bool finished() const { return finished_; }
  bool begun() const { return begun_; }
  // A call that was cut off is no part of it.
  ChatResult result() const;
  const ChatStreamUsage& usage() const { return usage_; }

 private:
  void read(std::string_view data);
  void end_call();
  void tell(ChatDelta::Kind kind, const std::string& text);

  std::function<void(const ChatDelta&)> on_delta_;
  ChatResult result_;
  ChatStreamUsage usage_;
  bool call_is_open_ = false;
  bool begun_ = false;
  bool finished_ = false;
};

// What a server says in the body of an error, or nothing where it is none: {"error": {"message"}}.
std::optional<std::string> server_message(std::string_view body);

}  // namespace baltoro::cli
