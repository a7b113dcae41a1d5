#include "text/xtml_parse.h"

#include <optional>
#include <utility>

#include "text/chat_space.h"
#include "text/xtml_arguments.h"
#include "text/xtml_tag.h"

namespace baltoro {
namespace {

class XtmlParser final : public ChatOutputParser {
 public:
  explicit XtmlParser(XtmlParserOptions options)
      : call_id_prefix_(std::move(options.call_id_prefix)),
        state_(options.thinking ? State::kThink : State::kAnswer) {}

  void text(std::string_view text) override {
    if (tag_kind_ != TagKind::kNone) {
      tag_ += text;
    } else {
      body(text);
    }
  }

  void marker(ChatMarker marker) override {
    switch (marker) {
      case ChatMarker::kOpen:
        begin_tag(TagKind::kOpening);
        break;
      case ChatMarker::kClose:
        begin_tag(TagKind::kClosing);
        break;
      case ChatMarker::kSep:
        end_tag();
        break;
      case ChatMarker::kEnd:
        ended_ = true;
        break;
      default:
        break;
    }
  }

 private:
  enum class TagKind { kNone, kOpening, kClosing };

  enum class State {
    kThink,
    kAnswer,
    kBetween,  // behind the reasoning; text without a response channel is the answer
    kAfter,    // behind the answer or a tools channel; text is dropped
    kTools,    // between calls; text is dropped
    kCall,     // between the arguments of a call
    kArgument,
    kJson,
    kClosed,  // behind the message; all is dropped
  };

  // A new marker discards one that has not ended: nothing of it is text.
  void begin_tag(TagKind kind) {
    tag_kind_ = kind;
    tag_.clear();
  }

  void end_tag() {
    const TagKind kind = std::exchange(tag_kind_, TagKind::kNone);
    if (kind == TagKind::kNone || state_ == State::kClosed) return;
    const XtmlTag tag = parse_xtml_tag(tag_);
    if (kind == TagKind::kOpening) {
      open(tag);
    } else {
      close(tag.name);
    }
    at_start_ = false;
  }

  void body(std::string_view text) {
    at_start_ = false;
    switch (state_) {
      case State::kThink:
        answer_.reasoning(text);
        break;
      case State::kAnswer:
        answer_.content(text);
        break;
      case State::kBetween:
        between(text);
        break;
      case State::kCall:
        arguments_->stray(text);
        break;
      case State::kArgument:
        if (argument_named_) arguments_->value(text);
        break;
      case State::kJson:
        arguments_->json(text);
        break;
      case State::kAfter:
      case State::kTools:
      case State::kClosed:
        break;
    }
  }

  // White space may stand before OPEN response; only more than that is an answer without a channel.
  void between(std::string_view text) {
    held_space_ += text;
    if (trim_space(held_space_).empty()) return;
    answer_.content(std::exchange(held_space_, {}));
    enter(State::kAnswer);
  }

  void enter(State state) {
    state_ = state;
    depth_ = 0;
    held_space_.clear();
  }

  bool in_call() const {
    return state_ == State::kCall || state_ == State::kArgument || state_ == State::kJson;
  }

  bool in_channel() const { return state_ == State::kThink || state_ == State::kAnswer; }

  void open(const XtmlTag& tag) {
    if (tag.name == "think" && !in_call()) {
      enter(State::kThink);
    } else if (tag.name == "response") {
      enter(State::kAnswer);
    } else if (tag.name == "tools") {
      enter(State::kTools);
    } else if (tag.name == "message") {
      // A repeated opener at the start is no news; later it would begin a turn that is not ours.
      if (!at_start_) enter(State::kClosed);
    } else if (in_channel()) {
      ++depth_;
    } else if (tag.name == "call") {
      open_call(tag.attribute("tool"));
    } else if (in_call()) {
      open_in_call(tag);
    }
  }

  void open_call(std::string_view name) {
    enter(State::kCall);
    arguments_.emplace(answer_);
    call_named_ = !name.empty();
    if (!call_named_) return;
    answer_.start_call(call_id_prefix_ + std::to_string(answer_.num_started()), std::string(name));
  }

  void open_in_call(const XtmlTag& tag) {
    if (!call_named_) return;
    if (tag.name == "argument") {
      end_argument();
      argument_named_ = tag.attributes.contains("key");
      if (argument_named_) {
        arguments_->begin_argument(tag.attribute("key"), tag.attribute("type"));
      }
      state_ = State::kArgument;
    } else if (tag.name == "json" && state_ == State::kCall) {
      arguments_->begin_json();
      state_ = State::kJson;
    }
  }

  void end_argument() {
    if (state_ == State::kArgument && argument_named_) arguments_->end_argument();
    if (in_call()) state_ = State::kCall;
  }

  void close(const std::string& name) {
    if (name == "message") {
      enter(State::kClosed);
    } else if (state_ == State::kThink) {
      close_in_reasoning(name);
    } else if (state_ == State::kAnswer) {
      close_in_answer(name);
    } else if (in_call()) {
      close_in_call(name);
    } else if (name == "response" || name == "tools") {
      enter(State::kAfter);
    }
  }

  void close_in_reasoning(const std::string& name) {
    if (name == "think") {
      enter(State::kBetween);
    } else if (depth_ > 0) {
      --depth_;
    }
  }

  // The answer ends at its closer, and at any closer that nothing in the answer has opened. The
  // exception is a late closer of the reasoning.
  void close_in_answer(const std::string& name) {
    if (name == "think") return;
    if (name == "response" || depth_ == 0) {
      enter(State::kAfter);
    } else {
      --depth_;
    }
  }

  void close_in_call(const std::string& name) {
    if (name == "argument" && state_ == State::kArgument) {
      end_argument();
    } else if (name == "json" && state_ == State::kJson) {
      state_ = State::kCall;
    } else if (name == "call") {
      end_argument();
      close_call();
    } else if (name == "tools") {
      enter(State::kAfter);
    }
  }

  void close_call() {
    enter(State::kTools);
    if (!call_named_) return;
    arguments_->finish();
    answer_.end_call();
  }

  std::string call_id_prefix_;
  State state_;
  TagKind tag_kind_ = TagKind::kNone;
  std::string tag_;
  bool at_start_ = true;
  int depth_ = 0;           // elements of no meaning that are open inside the channel
  std::string held_space_;  // kBetween
  std::optional<XtmlArguments> arguments_;
  bool call_named_ = false;
  bool argument_named_ = false;
};

}  // namespace

std::unique_ptr<ChatOutputParser> make_xtml_parser(XtmlParserOptions options) {
  return std::make_unique<XtmlParser>(std::move(options));
}

}  // namespace baltoro
