#include "cli/answer_printer.h"

#include <fmt/format.h>

#include <cstdio>

namespace baltoro::cli {

void AnswerPrinter::operator()(const ChatDelta& delta) {
  switch (delta.kind) {
    case ChatDelta::Kind::kReasoning:
      show(Style::kDim, delta.text);
      break;
    case ChatDelta::Kind::kContent:
      show(Style::kPlain, delta.text);
      break;
    case ChatDelta::Kind::kToolCallStart:
      show(Style::kCall, delta.name + " ");
      break;
    case ChatDelta::Kind::kToolCallArguments:
      show(Style::kCall, delta.text);
      break;
    case ChatDelta::Kind::kToolCallEnd:
      end();
      break;
  }
  std::fflush(stdout);
}

void AnswerPrinter::tool_result(const std::string& text) {
  show(Style::kCall, "-> " + text);
  end();
}

void AnswerPrinter::end() {
  if (style_ == Style::kNone) return;
  fmt::print("{}\n", color_ && style_ != Style::kPlain ? "\x1b[0m" : "");
  style_ = Style::kNone;
}

void AnswerPrinter::show(Style style, const std::string& text) {
  if (text.empty()) return;
  if (style != style_) {
    end();
    style_ = style;
    if (color_ && style == Style::kDim) fmt::print("\x1b[2m");
    if (color_ && style == Style::kCall) fmt::print("\x1b[36m");
    if (style == Style::kCall) fmt::print("[tool] ");
  }
  fmt::print("{}", text);
}

}  // namespace baltoro::cli
