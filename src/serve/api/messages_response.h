// The answers of /v1/messages.
#pragma once

#include <memory>
#include <string>

#include "serve/api/responder.h"

namespace baltoro::serve {

// The object "message".
Json message_object(const ResponseHead& head, const FinishedChoice& choice, const Usage& usage);

// The same as events: message_start, then blocks, message_delta, message_stop.
class MessageStream final : public StreamResponder {
 public:
  // `prompt_tokens`: all of them; how many were read is known at the end alone.
  MessageStream(std::shared_ptr<HttpReply> reply, ResponseHead head, std::int64_t prompt_tokens);
  void begin() override;
  void step(int choice, const AnswerStep& step) override;
  void end(int choice, const ChoiceEnd& end) override;
  void complete(const Usage& usage) override;

 private:
  enum class Block { kNone, kThinking, kText, kTool };

  void event(const char* name, Json fields);
  void add(const ChatDelta& delta);
  void text(Block block, const std::string& text);
  void open(Block block, Json content);
  void close_block();
  void delta(Json delta);

  ResponseHead head_;
  std::int64_t prompt_tokens_;
  Block block_ = Block::kNone;
  int block_idx_ = -1;
  ChoiceEnd end_;
};

}  // namespace baltoro::serve
