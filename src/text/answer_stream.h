// An answer as its reader sees it: split into channels, and ended by a stop string.
#pragma once

#include <string>
#include <vector>

#include "baltoro/chat.h"
#include "text/stop_matcher.h"

namespace baltoro {

// A ChatParser whose content ends before the first stop string. Reasoning and tool calls are not
// searched. One thread at a time.
class AnswerStream {
 public:
  // Throws Error{kUsage} for an empty stop string.
  AnswerStream(ChatParser parser, std::vector<std::string> stops);

  // As of ChatParser, less what a stop string might still take back.
  std::vector<ChatDelta> feed(TokenId id);
  std::vector<ChatDelta> finish(bool stopped);
  // Whether a stop string was seen: nothing comes after it.
  bool matched() const { return matcher_.matched(); }
  const std::string* match() const { return matcher_.match(); }
  // The answer so far as it was generated: what a stop string holds back or cut off is in it.
  const ChatResult& raw() const { return parser_.result(); }
  // The content so far, as far as it was returned.
  const std::string& content() const { return content_; }
  // Final after finish().
  ChatResult result() const;

 private:
  std::vector<ChatDelta> cut(std::vector<ChatDelta> deltas);

  ChatParser parser_;
  StopMatcher matcher_;
  std::string content_;
};

}  // namespace baltoro
