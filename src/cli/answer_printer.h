// An answer on the terminal, while it arrives.
#pragma once

#include <string>

#include "baltoro/chat.h"

namespace baltoro::cli {

// Prints the channels of an answer one after the other, the thinking dimmed.
class AnswerPrinter {
 public:
  explicit AnswerPrinter(bool color) : color_(color) {}

  void operator()(const ChatDelta& delta);
  void tool_result(const std::string& text);
  // Ends the line.
  void end();

 private:
  enum class Style { kNone, kDim, kPlain, kCall };

  void show(Style style, const std::string& text);

  bool color_;
  Style style_ = Style::kNone;
};

}  // namespace baltoro::cli
