#include "text/k2_parse.h"

#include <fmt/format.h>

#include <cstddef>
#include <optional>
#include <utility>

#include "text/chat_space.h"
#include "text/json_value.h"

namespace baltoro {
namespace {

class K2Parser final : public ChatOutputParser {
 public:
  explicit K2Parser(K2ParserOptions options)
      : tool_names_(std::move(options.tool_names)),
        used_ids_(std::move(options.used_ids)),
        state_(options.thinking_variant ? State::kStart : State::kAnswer) {}

  void text(std::string_view text) override {
    switch (state_) {
      case State::kThink:
        answer_.reasoning(text);
        break;
      case State::kStart:
        state_ = State::kAnswer;
        answer_.content(text);
        break;
      case State::kAnswer:
        answer_.content(text);
        break;
      case State::kHeader:
        header_ += text;
        break;
      case State::kArguments:
        argument_text(text);
        break;
      case State::kOutside:
      case State::kSkippedCall:
        break;
    }
  }

  void marker(ChatMarker marker) override {
    switch (marker) {
      case ChatMarker::kThinkBegin:
        if (state_ == State::kStart) state_ = State::kThink;
        break;
      case ChatMarker::kThinkEnd:
        if (state_ == State::kThink || state_ == State::kStart) state_ = State::kAnswer;
        break;
      case ChatMarker::kSectionBegin:
        leave_call();
        state_ = State::kOutside;
        break;
      case ChatMarker::kSectionEnd:
        leave_call();
        break;
      case ChatMarker::kCallBegin:
        leave_call();
        header_.clear();
        state_ = State::kHeader;
        break;
      case ChatMarker::kCallArgument:
        if (state_ == State::kHeader) open_call();
        break;
      case ChatMarker::kCallEnd:
        close_call();
        break;
      case ChatMarker::kEnd:
        leave_call();
        ended_ = true;
        break;
      default:
        break;
    }
  }

 private:
  enum class State {
    kStart,  // thinking variant, before the first id
    kThink,
    kAnswer,
    kOutside,  // behind the answer, outside calls; text is dropped
    kHeader,
    kArguments,
    kSkippedCall,  // the arguments of a call whose header names no tool
  };

  // The tool's name in a header such as "functions.get_weather:0", or nothing.
  std::optional<std::string> tool_name(std::string_view header) const {
    constexpr std::string_view kPrefix = "functions.";
    const std::size_t last = header.find_last_not_of("0123456789");
    const std::size_t digits = last == std::string_view::npos ? 0 : last + 1;
    if (digits == header.size()) return std::nullopt;
    std::string_view name = header.substr(0, digits);
    if (!name.empty()) {
      if (name.back() != ':') return std::nullopt;
      name.remove_suffix(1);
      if (name.starts_with(kPrefix)) name.remove_prefix(kPrefix.size());
    }
    if (!name.empty()) return std::string(name);
    // A bare number can mean one tool only if there is but one.
    if (tool_names_.size() == 1) return tool_names_.front();
    return std::nullopt;
  }

  // The id that the model wrote, unless it is taken: models may miscount.
  std::string new_id(std::string id, const std::string& name) {
    for (std::size_t k = used_ids_.size(); !used_ids_.insert(id).second; ++k) {
      id = fmt::format("functions.{}:{}", name, k);
    }
    return id;
  }

  void open_call() {
    const std::string_view header = trim_space(header_);
    std::optional<std::string> name = tool_name(header);
    if (!name) {
      state_ = State::kSkippedCall;
      return;
    }
    std::string id = new_id(std::string(header), *name);
    answer_.start_call(std::move(id), std::move(*name));
    held_space_.clear();
    state_ = State::kArguments;
  }

  // White space is cut at both ends, so what may be the last of it waits.
  void argument_text(std::string_view text) {
    held_space_ += text;
    std::string_view held = held_space_;
    if (answer_.open_call().arguments.empty()) {
      held.remove_prefix(std::min(held.find_first_not_of(kChatSpace), held.size()));
    }
    const std::size_t end = held.find_last_not_of(kChatSpace) + 1;
    answer_.arguments(held.substr(0, end));
    held_space_ = std::string(held.substr(end));
  }

  void close_call() {
    if (state_ == State::kArguments) {
      if (answer_.open_call().arguments.empty()) answer_.arguments("{}");
      answer_.end_call();
    }
    if (in_call()) state_ = State::kOutside;
  }

  // A marker that a call cannot contain ends it, if what has come of it is whole.
  void leave_call() {
    if (state_ == State::kArguments && is_json(answer_.open_call().arguments)) answer_.end_call();
    if (in_call()) state_ = State::kOutside;
  }

  bool in_call() const {
    return state_ == State::kHeader || state_ == State::kArguments || state_ == State::kSkippedCall;
  }

  std::vector<std::string> tool_names_;
  std::set<std::string> used_ids_;
  State state_;
  std::string header_;
  std::string held_space_;
};

}  // namespace

std::unique_ptr<ChatOutputParser> make_k2_parser(K2ParserOptions options) {
  return std::make_unique<K2Parser>(std::move(options));
}

}  // namespace baltoro
