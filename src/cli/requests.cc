#include "cli/requests.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "baltoro/chat.h"
#include "cli/answer.h"
#include "cli/command.h"
#include "cli/format.h"
#include "core/error.h"
#include "core/suggest.h"
#include "io/json_file.h"

namespace baltoro::cli {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

constexpr std::int64_t kRequestMaxTokens = 512;

const std::vector<std::string> kPromptKeys = {
    "prompt", "id", "max_tokens", "temperature", "top_k", "top_p", "min_p", "seed", "stop"};
const std::vector<std::string> kChatKeys = {"messages",        "tools",
                                            "thinking",        "thinking_effort",
                                            "tool_choice",     "parallel_tool_calls",
                                            "response_format", "add_generation_prompt"};

bool contains(const std::vector<std::string>& words, const std::string& word) {
  return std::ranges::find(words, word) != words.end();
}

// A key that nothing reads would be a wish that silently fails.
void check_keys(const json& request) {
  std::vector<std::string> known = kPromptKeys;
  known.insert(known.end(), kChatKeys.begin(), kChatKeys.end());
  for (const auto& item : request.items()) {
    const std::string& key = item.key();
    if (!contains(known, key)) {
      const std::string best = nearest(key, known);
      fail(ErrorCode::kUsage, "the key \"{}\" is unknown{}", key,
           best.empty() ? "; leave it out" : fmt::format("; did you mean \"{}\"?", best));
    }
    if (contains(kChatKeys, key) && !request.contains("messages")) {
      fail(ErrorCode::kUsage, "the key \"{}\" has no effect without \"messages\"; leave it out",
           key);
    }
  }
}

template <typename T>
bool fits(const json& value) {
  if constexpr (std::is_same_v<T, std::uint64_t>) {
    return value.is_number_unsigned();
  } else if constexpr (std::is_integral_v<T>) {
    return value.is_number_unsigned() ? std::in_range<T>(value.get<std::uint64_t>())
                                      : value.is_number_integer();
  } else {
    return value.is_number();
  }
}

template <typename T>
void take(const json& request, const char* key, const char* type, std::optional<T>& value) {
  const auto it = request.find(key);
  if (it == request.end() || it->is_null()) return;
  if (!fits<T>(*it)) fail(ErrorCode::kUsage, "{} is {}; it must be {}", key, it->dump(), type);
  value = it->get<T>();
}

// The flags with what the request says itself.
SamplingOptions sampling_of(const json& request, SamplingOptions options) {
  take(request, "temperature", "a number", options.temperature);
  take(request, "top_k", "an integer of at most 64 bits", options.top_k);
  take(request, "top_p", "a number", options.top_p);
  take(request, "min_p", "a number", options.min_p);
  take(request, "max_tokens", "an integer of at most 64 bits", options.max_tokens);
  std::optional<std::uint64_t> seed;
  take(request, "seed", "an integer from 0 to 18446744073709551615", seed);
  options.seed = seed.value_or(options.seed);
  if (const auto it = request.find("stop"); it != request.end() && !it->is_null()) {
    options.stop.clear();
    for (const json& stop : it->is_array() ? *it : json::array({*it})) {
      if (!stop.is_string()) fail(ErrorCode::kUsage, "stop is {}; it must be text", it->dump());
      options.stop.push_back(stop.get<std::string>());
    }
  }
  return options;
}

class Answerer {
 public:
  Answerer(const OpenModel& model, const std::string& dir, const SamplingOptions& flags)
      : model_(model),
        tokenizer_(model.require_tokenizer("--jsonl")),
        dir_(dir),
        flags_(flags),
        banned_(unusable_ids(tokenizer_, model.engine->info().vocab_size)) {}

  // The answer to one line, or {"error"}.
  ordered_json answer(std::string_view line, const std::string& where) {
    ordered_json out;
    try {
      const JsonDocument document = parse_json(line, where);
      const json& request = *document;
      if (!request.is_object()) {
        fail(ErrorCode::kUsage, "{}: a request is a JSON object", where);
      }
      if (request.contains("id")) out["id"] = request["id"];
      respond(request, line, out);
    } catch (const Error& error) {
      if (error.code() == ErrorCode::kOutOfMemory || error.code() == ErrorCode::kDevice) throw;
      out["error"] = error.what();
    }
    return out;
  }

 private:
  void respond(const json& request, std::string_view line, ordered_json& out) {
    check_keys(request);
    const bool has_messages = request.contains("messages");
    if (has_messages == request.contains("prompt")) {
      fail(ErrorCode::kUsage, "a request has either \"prompt\" or \"messages\"");
    }
    GenerateOptions options = resolve(sampling_of(request, flags_), defaults(), kRequestMaxTokens);
    options.banned = banned_;
    if (has_messages) {
      chat(parse_conversation(line), options, out);
    } else if (request["prompt"].is_string()) {
      complete(request["prompt"].get<std::string>(), options, out);
    } else {
      fail(ErrorCode::kUsage, "prompt is {}; it must be text", request["prompt"].dump());
    }
  }

  // Greedy unless a flag or the request says otherwise: answers in bulk are for measuring.
  GenerationDefaults defaults() const {
    GenerationDefaults defaults = model_.engine->info().generation;
    defaults.do_sample = false;
    return defaults;
  }

  void complete(const std::string& prompt, const GenerateOptions& options, ordered_json& out) {
    const std::vector<TokenId> ids = tokenizer_.encode(prompt);
    if (ids.empty()) fail(ErrorCode::kUsage, "the prompt is empty");
    Session session = model_.engine->new_session();
    session.prefill(ids);
    const Generation result = generate(session, &tokenizer_, options);
    out["text"] = result.text;
    out["finish_reason"] = result.reason == StopReason::kMaxTokens ? "length" : "stop";
    out["prompt_tokens"] = ids.size();
    out["completion_tokens"] = result.ids.size();
  }

  void chat(const Conversation& conversation, GenerateOptions options, ordered_json& out) {
    if (!format_) format_.emplace(ChatFormat::load(tokenizer_, dir_));
    const std::vector<TokenId> ids = format_->render(conversation);
    for (TokenId id : format_->stop_ids()) options.stop_ids.push_back(id);
    options.constraint = format_->constraint(conversation);
    Session session = model_.engine->new_session();
    session.prefill(ids);
    const Answer answer =
        generate_answer(session, tokenizer_, format_->parser(conversation), options);
    out["text"] = answer.result.content;
    out["reasoning"] = answer.result.reasoning;
    out["tool_calls"] = ordered_json::array();
    for (const ToolCall& call : answer.result.tool_calls) {
      out["tool_calls"].push_back({{"name", call.name}, {"arguments", call.arguments}});
    }
    out["finish_reason"] = to_string(answer.result.finish_reason);
    out["prompt_tokens"] = ids.size();
    out["completion_tokens"] = answer.num_tokens;
  }

  const OpenModel& model_;
  const Tokenizer& tokenizer_;
  std::string dir_;
  SamplingOptions flags_;
  std::vector<TokenId> banned_;
  std::optional<ChatFormat> format_;
};

}  // namespace

int answer_requests(const OpenModel& model, const std::string& model_dir, const std::string& path,
                    const SamplingOptions& flags) {
  const std::string text = read_text(path);
  Answerer answerer(model, model_dir, flags);
  int status = kOk;
  std::size_t number = 0;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const std::string_view line(text.data() + begin, end - begin);
    begin = end + 1;
    ++number;
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    const ordered_json answer = answerer.answer(line, fmt::format("{}:{}", path, number));
    if (answer.contains("error")) status = kFailed;
    fmt::print("{}\n", json_line(answer));
    std::fflush(stdout);
  }
  return status;
}

}  // namespace baltoro::cli
