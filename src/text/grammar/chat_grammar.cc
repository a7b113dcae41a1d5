#include "text/grammar/chat_grammar.h"

#include <algorithm>
#include <string_view>

#include "core/error.h"
#include "text/json_value.h"

namespace baltoro {
namespace {

using Kind = JsonValue::Kind;
using Calls = AnswerShape::Calls;

bool is_free(const Conversation& conversation) {
  return conversation.response_format.kind == ResponseFormat::Kind::kText &&
         conversation.tool_choice.kind == ToolChoice::Kind::kAuto && conversation.parallel_calls;
}

// All that a grammar depends on; zero bytes stand between, since JSON text has none.
std::string key_of(const Conversation& conversation) {
  std::string key =
      fmt::format("{} {} {} {}", static_cast<int>(conversation.response_format.kind),
                  static_cast<int>(conversation.tool_choice.kind), conversation.parallel_calls,
                  static_cast<int>(conversation.thinking.value_or(true)));
  const auto add = [&](std::string_view text) {
    key += '\0';
    key += text;
  };
  add(conversation.tool_choice.name);
  add(conversation.response_format.schema);
  add(conversation.tools);
  for (const Message& message : conversation.messages) {
    if (!message.tools.empty()) add(message.tools);
  }
  return key;
}

// The JSON texts of a request, parsed; schemas point into them.
class Request {
 public:
  explicit Request(const Conversation& conversation) : conversation_(conversation) {}

  AnswerShape shape(bool thinking) {
    AnswerShape shape;
    shape.thinking = thinking;
    read_format(shape);
    const ToolChoice& choice = conversation_.tool_choice;
    if (choice.kind != ToolChoice::Kind::kNone) read_tools(shape);
    const bool required =
        choice.kind == ToolChoice::Kind::kRequired || choice.kind == ToolChoice::Kind::kNamed;
    if (required && shape.tools.empty()) {
      fail(ErrorCode::kUsage, "tool_choice: a call is required, but no tool{} is declared",
           choice.name.empty() ? "" : fmt::format(" \"{}\"", choice.name));
    }
    if (!shape.tools.empty()) shape.calls = required ? Calls::kRequired : Calls::kAllowed;
    shape.one_call = !conversation_.parallel_calls || choice.kind == ToolChoice::Kind::kNamed;
    return shape;
  }

 private:
  const JsonValue& parse(std::string_view text, std::string_view what) {
    return documents_.emplace_back(parse_json(text, what));
  }

  void read_format(AnswerShape& shape) {
    const ResponseFormat& format = conversation_.response_format;
    shape.is_json = format.kind != ResponseFormat::Kind::kText;
    if (format.kind != ResponseFormat::Kind::kJsonSchema) return;
    constexpr const char* kWhere = "response_format.json_schema.schema";
    check_size(format.schema, kWhere);
    shape.schema = {&parse(format.schema, kWhere), kWhere};
  }

  // Rules are made for schemas in time that grows with the square of their size, at worst.
  static void check_size(std::string_view text, std::string_view where) {
    constexpr std::size_t kMaxBytes = std::size_t{1} << 18;
    if (text.size() <= kMaxBytes) return;
    fail(ErrorCode::kUnsupported, "{}: it has {} bytes; at most {} are supported", where,
         text.size(), kMaxBytes);
  }

  void read_tools(AnswerShape& shape) {
    if (!conversation_.tools.empty()) add_tools(conversation_.tools, "tools", shape);
    for (std::size_t i = 0; i < conversation_.messages.size(); ++i) {
      const std::string& tools = conversation_.messages[i].tools;
      if (!tools.empty()) add_tools(tools, fmt::format("messages[{}].tools", i), shape);
    }
  }

  void add_tools(const std::string& text, const std::string& where, AnswerShape& shape) {
    check_size(text, where);
    const JsonValue& list = parse(text, where);
    for (std::size_t i = 0; i < list.items.size(); ++i) {
      const JsonValue* function = list.items[i].find("function");
      const bool flat = function == nullptr;
      const JsonValue& tool = flat ? list.items[i] : *function;
      const JsonValue* name = tool.find("name");
      if (name == nullptr || name->kind != Kind::kString || name->text.empty()) continue;
      const ToolChoice& choice = conversation_.tool_choice;
      if (choice.kind == ToolChoice::Kind::kNamed && name->text != choice.name) continue;
      DeclaredTool& added = shape.tools.emplace_back();
      added.name = name->text;
      const JsonValue* strict = tool.find("strict");
      added.strict = strict != nullptr && strict->text == "true";
      const JsonValue* parameters = tool.find("parameters");
      if (parameters == nullptr || parameters->kind == Kind::kNull) continue;
      added.parameters = {parameters,
                          fmt::format("{}[{}]{}.parameters", where, i, flat ? "" : ".function")};
    }
  }

  const Conversation& conversation_;
  std::list<JsonValue> documents_;
};

}  // namespace

TokenId MarkerIds::operator[](ChatMarker marker) const {
  const auto found = std::ranges::find(markers_, marker, [](const auto& m) { return m.second; });
  BALTORO_CHECK(found != markers_.end(), "the format has no marker {}", static_cast<int>(marker));
  return found->first;
}

ChatGrammars::ChatGrammars(Tokenizer tokenizer, ChatFormat::Kind kind,
                           std::vector<std::pair<TokenId, ChatMarker>> markers)
    : tokenizer_(std::move(tokenizer)), kind_(kind), markers_(std::move(markers)) {}

// The walks over the vocabulary that take long are made here, and not while others wait for a
// token.
void ChatGrammars::prepare() {
  format_ = kind_ == ChatFormat::Kind::kXtml ? make_xtml_base(MarkerIds(markers_)) : make_k2_base();
  auto base = std::make_shared<TokenGrammarBase>();
  base->trie = std::make_shared<const TokenTrie>(tokenizer_);
  base->num_states = format_.builder.num_states();
  const TokenGrammar grammar(format_.builder.build(format_.json.value), base, {});
  StackSpace space(grammar.grammar());
  for (std::size_t i = 0; i < base->num_states; ++i) {
    const auto state = static_cast<StateId>(i);
    if (grammar.grammar().consumes(state)) grammar.tokens_of(state, space);
  }
  base_ = std::move(base);
}

std::shared_ptr<const TokenGrammar> ChatGrammars::find(const Conversation& conversation) {
  if (is_free(conversation)) return nullptr;
  if (!conversation.add_generation_prefix) {
    fail(ErrorCode::kUsage,
         "add_generation_prompt is false: an answer can only be held to response_format or "
         "tool_choice where the prompt ends with the beginning of it");
  }
  std::call_once(prepared_, [&] { prepare(); });
  std::string key = key_of(conversation);
  const auto take = [&]() -> std::shared_ptr<const TokenGrammar> {
    const auto known = std::ranges::find(kept_, key, [](const auto& entry) { return entry.first; });
    if (known == kept_.end()) return nullptr;
    kept_.splice(kept_.begin(), kept_, known);
    return kept_.front().second;
  };
  {
    const std::lock_guard lock(mutex_);
    if (auto grammar = take()) return grammar;
  }
  std::shared_ptr<const TokenGrammar> made = compile(conversation);
  const std::lock_guard lock(mutex_);
  if (auto grammar = take()) return grammar;
  kept_.emplace_front(std::move(key), made);
  if (kept_.size() > kMaxKept) kept_.pop_back();
  return made;
}

std::shared_ptr<const TokenGrammar> ChatGrammars::compile(const Conversation& conversation) const {
  Request request(conversation);
  const bool xtml = kind_ == ChatFormat::Kind::kXtml;
  const bool thinking =
      xtml ? conversation.thinking.value_or(true) : kind_ == ChatFormat::Kind::kK2Thinking;
  const AnswerShape shape = request.shape(thinking);
  const bool is_auto = conversation.tool_choice.kind == ToolChoice::Kind::kAuto;
  if (is_auto && !shape.is_json && shape.tools.empty()) return nullptr;
  FormatGrammar format = format_;
  const MarkerIds ids(markers_);
  const RuleId answer =
      xtml ? add_xtml_answer(format, ids, shape) : add_k2_answer(format, ids, shape);
  return std::make_shared<const TokenGrammar>(format.builder.build(answer), base_,
                                              std::vector<TokenId>{ids[ChatMarker::kEnd]});
}

}  // namespace baltoro
