// Conversations in the chat formats of the Kimi family: XTML (Kimi K3) and the K2 format (Kimi K2,
// Kimi Linear). A request goes JSON -> Conversation -> segments -> ids; what the model answers goes
// ids -> ChatParser -> reasoning, content and tool calls, delta by delta.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "baltoro/constraint.h"
#include "baltoro/tokenizer.h"

namespace baltoro {

// How the arguments of a tool call were given, which decides how a prompt shows them.
enum class ArgumentsForm {
  kText,    // a string: the source text of each value is kept; "" means no arguments
  kObject,  // a JSON object: its values are printed anew, as Python's json.dumps does
};

struct ToolCall {
  std::string id;  // empty: none
  std::string name;
  std::string arguments;  // JSON text
  ArgumentsForm form = ArgumentsForm::kText;
};

struct Message {
  std::string role = {};  // system, user, assistant, tool; developer in XTML is system
  std::vector<std::string> content = {};  // text parts in order; empty for null
  std::optional<std::string> name = {};   // an empty name of a tool result is a name all the same
  std::string reasoning = {};             // assistant only
  std::vector<ToolCall> tool_calls = {};  // assistant only
  std::string tool_call_id = {};          // tool only: the call that this answers; empty: not said
  std::optional<std::string> tool = {};   // tool only: the name of the tool
  std::string tools = {};  // system only: JSON array of tools added here; empty: none
};

struct ToolChoice {
  enum class Kind { kAuto, kNone, kRequired, kNamed };
  Kind kind = Kind::kAuto;
  std::string name;  // kNamed only
};

struct ResponseFormat {
  enum class Kind { kText, kJsonObject, kJsonSchema };
  Kind kind = Kind::kText;
  std::string schema;  // kJsonSchema only: JSON text
};

struct Conversation {
  std::vector<Message> messages;
  std::string tools;             // JSON array of tool declarations as the client wrote it, or empty
  std::optional<bool> thinking;  // not set: as the format has it (XTML and K2-Thinking on)
  std::optional<std::string> thinking_effort = "max";  // XTML; not set: no word about the effort
  ToolChoice tool_choice;
  bool parallel_calls = true;  // false: at most one call; ChatFormat::constraint sees to it
  ResponseFormat response_format;
  bool add_generation_prefix = true;  // end where the assistant's next message begins
};

// Reads the JSON of a chat request: an object with `messages` and the optional keys `tools`,
// `thinking`, `thinking_effort`, `tool_choice`, `parallel_tool_calls`, `response_format` and
// `add_generation_prompt`; other keys are not looked at. Content may be null, a string or a list of
// {"type": "text", "text"}; `thinking` a boolean or {"type": "enabled" | "disabled"}. Throws
// Error{kUsage} with line and column, or with the path of the wrong value
// ("messages[2].content: ..."), and Error{kUnsupported} for content that is not text.
Conversation parse_conversation(std::string_view json);

// A piece of a prompt that is encoded on its own: no token crosses its border. Only kControl
// segments, which never hold text of users, tools or files, may become special ids.
struct PromptSegment {
  enum class Kind { kText, kControl };
  Kind kind;
  std::string text;

  bool operator==(const PromptSegment&) const = default;
};

// One step of an answer. The texts of one kind (and call), put together, equal the ChatResult,
// except that a call without a kToolCallEnd is no part of the result.
struct ChatDelta {
  enum class Kind {
    kReasoning,
    kContent,
    kToolCallStart,      // id and name are set
    kToolCallArguments,  // text is the next piece of the JSON text of the arguments
    kToolCallEnd,
  };
  Kind kind;
  std::string text;
  int call_idx = -1;  // counts the calls that were started, from 0
  std::string id;
  std::string name;

  bool operator==(const ChatDelta&) const = default;
};

enum class FinishReason { kStop, kLength, kToolCalls };

// "stop", "length" or "tool_calls".
std::string_view to_string(FinishReason reason);

struct ChatResult {
  std::string reasoning;
  std::string content;
  std::vector<ToolCall> tool_calls;  // complete calls only; form is kText
  FinishReason finish_reason = FinishReason::kLength;
};

// The message that continues a conversation with an answer.
Message to_message(const ChatResult& result);

class ChatGrammars;
class ChatOutputParser;
enum class ChatMarker : unsigned char;

// Splits an answer into reasoning, content and tool calls while its ids arrive. Works on ids, so a
// text that spells a marker is text. All texts are valid UTF-8: an unfinished character is held
// back, ill-formed bytes become U+FFFD. One thread at a time.
class ChatParser {
 public:
  ~ChatParser();
  ChatParser(ChatParser&&) noexcept;
  ChatParser& operator=(ChatParser&&) noexcept;

  // What `id` adds; often nothing. Feed every id that was generated, the stop id too; what follows
  // a stop id is not looked at. Throws Error{kUsage} for an id outside the vocabulary.
  std::vector<ChatDelta> feed(TokenId id);

  // Ends the answer and returns the last deltas. `stopped`: the answer ended by itself, though no
  // stop id was fed (a stop string, a stop id of the caller's); otherwise, without a stop id, it
  // was cut off. Call once.
  std::vector<ChatDelta> finish(bool stopped = false);

  // The answer so far; final after finish().
  const ChatResult& result() const;

 private:
  friend class ChatFormat;
  ChatParser(std::unique_ptr<ChatOutputParser> parser, Tokenizer tokenizer,
             std::vector<std::pair<TokenId, ChatMarker>> markers);
  void flush();

  std::unique_ptr<ChatOutputParser> parser_;
  Tokenizer tokenizer_;
  std::vector<std::pair<TokenId, ChatMarker>> markers_;
  std::string pending_;  // bytes of an unfinished character
};

// The chat format of a checkpoint. Immutable, safe to use from many threads at once.
class ChatFormat {
 public:
  enum class Kind { kXtml, kK2Instruct, kK2Thinking };

  // Chooses the format by the special tokens: <|im_middle|> is K2 (with <think>: K2-Thinking),
  // else <|open|> is XTML. Throws Error{kBadModel} if there is neither, or naming a marker of the
  // format that is missing. The system text that K2 puts before a conversation
  // without one is read from `dir`/chat_template.jinja where that file exists.
  static ChatFormat load(const Tokenizer& tokenizer, const std::filesystem::path& dir);

  // As load, with that system text given; not set: none. `where` names the vocabulary in messages.
  ChatFormat(Tokenizer tokenizer, std::optional<std::string> default_system,
             const std::string& where = "tokenizer_config.json");

  Kind kind() const { return kind_; }

  // The prompt. Throws Error{kUsage} for a conversation that the format cannot express (an unknown
  // role, an effort that does not exist, a tool result without a call), Error{kUnsupported} for a
  // valid option for which it has no form. K2 has no words for response_format and a tool_choice
  // that requires a call: there constraint() alone sees to them.
  std::vector<PromptSegment> segments(const Conversation& conversation) const;

  // The ids of the segments, each encoded separately.
  std::vector<TokenId> encode(std::span<const PromptSegment> segments) const;
  // encode(segments(conversation)).
  std::vector<TokenId> render(const Conversation& conversation) const;

  // The ids that end an answer.
  std::vector<TokenId> stop_ids() const;

  // Holds an answer to the prompt made from `conversation` to its response_format, tool_choice and
  // parallel_calls (docs/structured_output.md); null where they leave every answer possible. Each
  // answer needs one of its own; the grammar behind them is kept, so that asking again is cheap.
  // The first call for a vocabulary takes its time. Throws Error{kUsage} for what is wrong and
  // Error{kUnsupported} for what is not supported in a schema, with its path in an OpenAI request
  // ("response_format.json_schema.schema.properties.a.pattern: ...", "tools[0].function.parameters
  // ..."), and Error{kUsage} where a call is required and no tool declared.
  std::shared_ptr<TokenConstraint> constraint(const Conversation& conversation) const;

  // A parser for the answer to a prompt made from `conversation`. XTML gives calls no ids: theirs
  // are `call_id_prefix` and the number of the call in the answer. In K2 the model writes them; one
  // that a call of the conversation has already becomes functions.NAME:K with another K.
  ChatParser parser(const Conversation& conversation,
                    const std::string& call_id_prefix = "call_") const;

 private:
  Tokenizer tokenizer_;
  std::optional<std::string> default_system_;
  Kind kind_;
  std::vector<std::pair<TokenId, ChatMarker>> markers_;
  std::shared_ptr<ChatGrammars> grammars_;
};

}  // namespace baltoro
