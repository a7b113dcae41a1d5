// Answers of a model of this process: renders each conversation, reuses what the session has read
// already, and splits the answer while it arrives.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "baltoro/chat.h"
#include "baltoro/engine.h"
#include "baltoro/generate.h"
#include "baltoro/session.h"
#include "cli/chat_partner.h"
#include "cli/model_options.h"

namespace baltoro::cli {

class ChatSession final : public ChatPartner {
 public:
  // The seed of `options` is that of each answer. Throws Error{kUsage} where the model has no
  // tokenizer.
  ChatSession(OpenModel model, ChatFormat format, GenerateOptions options);

  // Throws as ChatFormat::render and generate.
  ChatAnswer answer(const Conversation& conversation, std::uint64_t seed,
                    const std::function<void(const ChatDelta&)>& on_delta,
                    const std::function<bool()>& cancelled) override;
  void check(const Conversation& conversation) const override;
  bool has_thinking() const override;
  std::string describe(const ChatAnswer& answer) const override;

 private:
  // Brings the session to `ids`, from the longest prefix that is still there. Returns the number of
  // tokens that were read.
  std::int64_t read(const std::vector<TokenId>& ids);
  ChatAnswer generate(const Conversation& conversation,
                      const std::function<void(const ChatDelta&)>& on_delta,
                      const std::function<bool()>& cancelled);

  OpenModel model_;
  const Tokenizer& tokenizer_;
  ChatFormat format_;
  GenerateOptions options_;
  std::optional<Session> session_;
  std::vector<Snapshot> snapshots_;  // at the ends of past prompts, in order
};

}  // namespace baltoro::cli
