#include "serve/api/effort.h"

#include <string>
#include <string_view>

#include "core/error.h"

namespace baltoro::serve {
namespace {

struct Effort {
  std::string_view word;
  const char* trained;  // null: no thinking
};

constexpr Effort kEfforts[] = {{"none", nullptr},  {"minimal", nullptr}, {"low", "low"},
                               {"medium", "high"}, {"high", "high"},     {"xhigh", "max"},
                               {"max", "max"}};

}  // namespace

void disable_thinking(const std::string& path, ChatFormat::Kind kind, Conversation& conversation) {
  if (kind == ChatFormat::Kind::kK2Thinking) {
    fail(ErrorCode::kUnsupported, "{}: this model always thinks; leave the field out", path);
  }
  conversation.thinking = false;
}

void apply_effort(const JsonField& effort, ChatFormat::Kind kind, Conversation& conversation) {
  const auto word = effort.optional_string();
  if (!word) return;
  for (const Effort& known : kEfforts) {
    if (known.word != *word) continue;
    if (known.trained == nullptr) return disable_thinking(effort.path, kind, conversation);
    conversation.thinking_effort = known.trained;
    return;
  }
  fail(ErrorCode::kUsage,
       "{}: expected none, minimal, low, medium, high, xhigh or max, found \"{}\"", effort.path,
       *word);
}

}  // namespace baltoro::serve
