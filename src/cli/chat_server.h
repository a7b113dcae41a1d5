// Answers of a running server, over OpenAI's interface.
#pragma once

#include <functional>
#include <string>

#include "cli/chat_partner.h"
#include "cli/http_client.h"
#include "cli/sampling_options.h"

namespace baltoro::cli {

struct ChatServerOptions {
  ServerUrl url;
  std::string key;  // empty: none
  SamplingOptions sampling;
  std::string effort;  // empty: the server's
};

class ChatServer final : public ChatPartner {
 public:
  // Asks the server for its model. Throws Error{kIo} where that fails.
  explicit ChatServer(ChatServerOptions options);

  const std::string& model() const { return model_; }

  ChatAnswer answer(const Conversation& conversation, std::uint64_t seed,
                    const std::function<void(const ChatDelta&)>& on_delta,
                    const std::function<bool()>& cancelled) override;
  void check(const Conversation&) const override {}  // the server will
  bool has_thinking() const override { return true; }
  std::string describe(const ChatAnswer& answer) const override;

 private:
  std::string request_body(const Conversation& conversation, std::uint64_t seed) const;
  HttpAnswer ask(HttpCall call, const std::function<void(std::string_view)>& on_piece = {},
                 const std::function<bool()>& cancelled = {}) const;

  ChatServerOptions options_;
  std::string model_;
};

}  // namespace baltoro::cli
