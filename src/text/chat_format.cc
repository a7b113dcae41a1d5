// Which format a checkpoint speaks, and the way from a conversation to ids.
#include <array>
#include <memory>
#include <span>
#include <utility>

#include "baltoro/chat.h"
#include "core/directory.h"
#include "core/error.h"
#include "io/file_reader.h"
#include "text/chat_output.h"
#include "text/chat_tools.h"
#include "text/grammar/chat_grammar.h"
#include "text/k2_call_ids.h"
#include "text/k2_parse.h"
#include "text/k2_render.h"
#include "text/xtml_parse.h"
#include "text/xtml_render.h"

namespace baltoro {
namespace {

constexpr const char* kTokenizerConfig = "tokenizer_config.json";
// Those of the released models have 10 KB.
constexpr std::uint64_t kMaxTemplateBytes = std::uint64_t{1} << 24;

struct MarkerName {
  const char* token;
  ChatMarker marker;
};

constexpr MarkerName kXtmlMarkers[] = {{kXtmlOpen, ChatMarker::kOpen},
                                       {kXtmlClose, ChatMarker::kClose},
                                       {kXtmlSep, ChatMarker::kSep},
                                       {kXtmlEnd, ChatMarker::kEnd}};

constexpr MarkerName kK2Markers[] = {{kK2End, ChatMarker::kEnd},
                                     {"[EOS]", ChatMarker::kEnd},
                                     {"[EOT]", ChatMarker::kEnd},
                                     {kK2SectionBegin, ChatMarker::kSectionBegin},
                                     {kK2SectionEnd, ChatMarker::kSectionEnd},
                                     {kK2CallBegin, ChatMarker::kCallBegin},
                                     {kK2CallArgument, ChatMarker::kCallArgument},
                                     {kK2CallEnd, ChatMarker::kCallEnd}};

constexpr MarkerName kK2ThinkMarkers[] = {{kK2ThinkBegin, ChatMarker::kThinkBegin},
                                          {kK2ThinkEnd, ChatMarker::kThinkEnd}};

// Markers that only prompts have.
constexpr std::array<const char*, 4> kK2PromptTokens = {kK2User, kK2Assistant, kK2System,
                                                        kK2Middle};

TokenId require_special(const Tokenizer& tokenizer, const char* token, const std::string& where) {
  const std::optional<TokenId> id = tokenizer.special_id(token);
  if (id) return *id;
  fail(ErrorCode::kBadModel,
       "{}: added_tokens_decoder lacks {}, which the chat format of this model needs", where,
       token);
}

ChatFormat::Kind choose_kind(const Tokenizer& tokenizer, const std::string& where) {
  if (tokenizer.special_id(kK2Middle)) {
    const bool thinks = tokenizer.special_id(kK2ThinkBegin).has_value();
    return thinks ? ChatFormat::Kind::kK2Thinking : ChatFormat::Kind::kK2Instruct;
  }
  if (tokenizer.special_id(kXtmlOpen)) return ChatFormat::Kind::kXtml;
  fail(ErrorCode::kBadModel,
       "{}: added_tokens_decoder has neither {} (K2 format) nor {} (XTML), so this model has no "
       "known chat format; use baltoro run for plain text",
       where, kK2Middle, kXtmlOpen);
}

std::optional<std::string> read_default_system(const std::filesystem::path& file) {
  if (!std::filesystem::exists(file)) return kK2DefaultSystem;
  return find_default_system(read_text_file(file, kMaxTemplateBytes));
}

}  // namespace

ChatFormat ChatFormat::load(const Tokenizer& tokenizer, const std::filesystem::path& given) {
  const std::filesystem::path dir = without_end_slash(given);
  return ChatFormat(tokenizer, read_default_system(dir / "chat_template.jinja"),
                    (dir / kTokenizerConfig).string());
}

ChatFormat::ChatFormat(Tokenizer tokenizer, std::optional<std::string> default_system,
                       const std::string& where)
    : tokenizer_(std::move(tokenizer)),
      default_system_(std::move(default_system)),
      kind_(choose_kind(tokenizer_, where)) {
  const auto add = [&](std::span<const MarkerName> names) {
    for (const MarkerName& name : names) {
      markers_.emplace_back(require_special(tokenizer_, name.token, where), name.marker);
    }
  };
  if (kind_ == Kind::kXtml) {
    add(kXtmlMarkers);
  } else {
    add(kK2Markers);
    if (kind_ == Kind::kK2Thinking) add(kK2ThinkMarkers);
    for (const char* token : kK2PromptTokens) require_special(tokenizer_, token, where);
  }
  grammars_ = std::make_shared<ChatGrammars>(tokenizer_, kind_, markers_);
}

std::vector<PromptSegment> ChatFormat::segments(const Conversation& conversation) const {
  if (kind_ == Kind::kXtml) return render_xtml(conversation);
  return render_k2(conversation, {kind_ == Kind::kK2Thinking, default_system_});
}

std::vector<TokenId> ChatFormat::encode(std::span<const PromptSegment> segments) const {
  std::vector<TokenId> ids;
  for (const PromptSegment& segment : segments) {
    if (segment.kind == PromptSegment::Kind::kControl) {
      ids.push_back(require_special(tokenizer_, segment.text.c_str(), kTokenizerConfig));
    } else {
      const std::vector<TokenId> text = tokenizer_.encode(segment.text);
      ids.insert(ids.end(), text.begin(), text.end());
    }
  }
  return ids;
}

std::vector<TokenId> ChatFormat::render(const Conversation& conversation) const {
  return encode(segments(conversation));
}

std::vector<TokenId> ChatFormat::stop_ids() const {
  std::vector<TokenId> ids;
  for (const auto& [id, marker] : markers_) {
    if (marker == ChatMarker::kEnd) ids.push_back(id);
  }
  return ids;
}

std::shared_ptr<TokenConstraint> ChatFormat::constraint(const Conversation& conversation) const {
  auto grammar = grammars_->find(conversation);
  if (grammar == nullptr) return nullptr;
  return std::make_shared<GrammarConstraint>(std::move(grammar), tokenizer_);
}

ChatParser ChatFormat::parser(const Conversation& conversation,
                              const std::string& call_id_prefix) const {
  std::unique_ptr<ChatOutputParser> parser;
  if (kind_ == Kind::kXtml) {
    parser = make_xtml_parser({conversation.thinking.value_or(true), call_id_prefix});
  } else {
    K2CallIds ids;
    for (const Message& message : conversation.messages) {
      for (const ToolCall& call : message.tool_calls) ids.of_call(call);
    }
    parser =
        make_k2_parser({kind_ == Kind::kK2Thinking, tool_names(conversation.tools), ids.all()});
  }
  return ChatParser(std::move(parser), tokenizer_, markers_);
}

}  // namespace baltoro
