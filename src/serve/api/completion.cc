#include "serve/api/completion.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "core/error.h"
#include "serve/api/chat_response.h"
#include "serve/api/sse.h"

namespace baltoro::serve {
namespace {

using Kind = JsonValue::Kind;

constexpr std::int64_t kDefaultMaxTokens = 16;  // as OpenAI's
constexpr std::int64_t kMostLogprobs = 20;
constexpr std::size_t kMostPrompts = 128;

std::vector<TokenId> read_ids(const JsonField& list, std::int64_t vocab_size) {
  std::vector<TokenId> ids;
  for (const JsonField& item : list.items()) {
    item.expect(Kind::kNumber, "a token id");
    const auto id = integer_in(item, 0, vocab_size - 1);
    ids.push_back(static_cast<TokenId>(*id));
  }
  return ids;
}

std::vector<std::vector<TokenId>> read_prompts(const JsonField& prompt, const Model& model) {
  constexpr const char* kForms =
      "a string, an array of strings, an array of token ids or an array of such arrays";
  if (prompt.is(Kind::kString)) return {model.tokenizer.encode(prompt.value->text)};
  prompt.expect(Kind::kArray, kForms);
  const std::vector<JsonField> items = prompt.items();
  if (!items.empty() && items.front().is(Kind::kNumber)) {
    return {read_ids(prompt, model.vocab_size)};
  }
  if (items.size() > kMostPrompts) {
    fail(ErrorCode::kUsage, "{}: {} prompts; there may be at most {}", prompt.path, items.size(),
         kMostPrompts);
  }
  std::vector<std::vector<TokenId>> prompts;
  for (const JsonField& item : items) {
    if (item.is(Kind::kArray)) {
      prompts.push_back(read_ids(item, model.vocab_size));
    } else {
      item.expect(Kind::kString, "a string or an array of token ids");
      prompts.push_back(model.tokenizer.encode(item.value->text));
    }
  }
  return prompts;
}

void check_prompts(const std::vector<std::vector<TokenId>>& prompts) {
  const bool empty = std::ranges::any_of(prompts, [](const auto& ids) { return ids.empty(); });
  if (prompts.empty() || empty) {
    fail(ErrorCode::kUsage, "prompt: it is empty; it needs at least one token");
  }
}

// Fields whose effect a client would miss.
void refuse_unsupported(const JsonField& request, int num_choices) {
  if (const auto suffix = request["suffix"].optional_string(); suffix && !suffix->empty()) {
    fail(ErrorCode::kUnsupported, "suffix: the model cannot fill in before a text; leave it out");
  }
  const auto best_of = integer_in(request["best_of"], 1, 128);
  if (best_of && *best_of != num_choices) {
    fail(ErrorCode::kUnsupported, "best_of: {} differs from n, which is {}; leave it out", *best_of,
         num_choices);
  }
}

// In Unicode characters; the bytes of several tokens may make one.
std::int64_t count_characters(std::string_view text) {
  return std::ranges::count_if(
      text, [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; });
}

// The old shape: parallel lists. `offset` is where the first token's text begins; moved to the end.
Json logprobs_json(const Tokenizer& tokenizer, const std::vector<Choice>& tokens,
                   std::int64_t& offset) {
  Json out = {{"tokens", Json::array()},
              {"token_logprobs", Json::array()},
              {"top_logprobs", Json::array()},
              {"text_offset", Json::array()}};
  for (const Choice& token : tokens) {
    out["tokens"].push_back(token_text(tokenizer, token.token));
    out["token_logprobs"].push_back(number(token.logprob));
    Json top = Json::object();
    for (const TokenLogprob& other : token.top) {
      // Of tokens with one text the likelier comes first.
      const std::string text = token_text(tokenizer, other.token);
      if (!top.contains(text)) top[text] = number(other.logprob);
    }
    out["top_logprobs"].push_back(std::move(top));
    out["text_offset"].push_back(offset);
    offset += count_characters(tokenizer.token_bytes(token.token));
  }
  return out;
}

Json choice_json(int index, const std::string& text, Json logprobs, Json finish_reason) {
  return {{"text", text},
          {"index", index},
          {"logprobs", std::move(logprobs)},
          {"finish_reason", std::move(finish_reason)}};
}

Json completion_json(const ResponseHead& head, Json choices) {
  return {{"id", head.id},
          {"object", "text_completion"},
          {"created", head.created},
          {"model", head.model},
          {"choices", std::move(choices)},
          {"system_fingerprint", head.fingerprint}};
}

}  // namespace

CompletionRequest parse_completion_request(const JsonField& request, const Model& model) {
  CompletionRequest out;
  AnswerRequest& answer = out.answer;
  answer.fields = read_generation_fields(request, model);
  refuse_unsupported(request, answer.fields.num_choices);
  const auto logprobs = integer_in(request["logprobs"], 0, kMostLogprobs);
  answer.logprobs = logprobs.has_value();
  answer.fields.sampling.num_logprobs = static_cast<int>(logprobs.value_or(0));
  const bool echo = request["echo"].optional_bool().value_or(false);
  if (echo && answer.logprobs) {
    fail(ErrorCode::kUnsupported, "echo: the prompt's own logprobs cannot be given; ask without");
  }
  answer.prompts = read_prompts(request["prompt"], model);
  check_prompts(answer.prompts);
  const std::int64_t asked = answer.fields.max_tokens.value_or(kDefaultMaxTokens);
  for (const auto& prompt : answer.prompts) {
    answer.max_tokens = answer_length(model, prompt.size(), asked, "prompt");
  }
  for (int i = 0; i < answer.total_choices(); ++i) {
    const auto prompt_idx = static_cast<std::size_t>(i / answer.fields.num_choices);
    out.echo.push_back(echo ? model.tokenizer.decode(answer.prompts[prompt_idx]) : std::string());
  }
  return out;
}

Json text_completion(const ResponseHead& head, const Tokenizer& tokenizer,
                     const CompletionRequest& request, const std::vector<FinishedChoice>& choices,
                     const Usage& usage) {
  Json list = Json::array();
  for (std::size_t i = 0; i < choices.size(); ++i) {
    const FinishedChoice& choice = choices[i];
    std::int64_t offset = 0;
    Json logprobs;
    if (request.answer.logprobs) logprobs = logprobs_json(tokenizer, choice.tokens, offset);
    list.push_back(choice_json(static_cast<int>(i), request.echo[i] + choice.result.content,
                               std::move(logprobs), to_string(choice.result.finish_reason)));
  }
  Json out = completion_json(head, std::move(list));
  out["usage"] = usage_json(usage);
  return out;
}

CompletionStream::CompletionStream(std::shared_ptr<HttpReply> reply, ResponseHead head,
                                   Tokenizer tokenizer, const CompletionRequest& request)
    : StreamResponder(std::move(reply), ErrorShape::kOpenAi),
      head_(std::move(head)),
      tokenizer_(std::move(tokenizer)),
      echo_(request.echo),
      logprobs_(request.answer.logprobs),
      include_usage_(request.answer.fields.include_usage),
      offsets_(request.echo.size()) {}

void CompletionStream::begin() {
  StreamResponder::begin();
  for (std::size_t i = 0; i < echo_.size(); ++i) {
    if (!echo_[i].empty()) write_choice(static_cast<int>(i), echo_[i], nullptr, nullptr);
  }
}

void CompletionStream::step(int choice, const AnswerStep& step) {
  Json logprobs;
  if (logprobs_ && !step.tokens.empty()) {
    logprobs = logprobs_json(tokenizer_, step.tokens, offsets_[static_cast<std::size_t>(choice)]);
  }
  std::string text;
  for (const ChatDelta& delta : step.deltas) text += delta.text;
  write_choice(choice, text, std::move(logprobs), nullptr);
}

void CompletionStream::end(int choice, const ChoiceEnd& end) {
  write_choice(choice, "", nullptr, to_string(end.result.finish_reason));
}

void CompletionStream::complete(const Usage& usage) {
  if (include_usage_) {
    Json last = completion_json(head_, Json::array());
    last["usage"] = usage_json(usage);
    write(sse_data(dump(last)));
  }
  write(sse_data("[DONE]"));
  close();
}

void CompletionStream::write_choice(int choice, const std::string& text, Json logprobs,
                                    Json finish_reason) {
  Json json = completion_json(
      head_,
      Json::array({choice_json(choice, text, std::move(logprobs), std::move(finish_reason))}));
  if (include_usage_) json["usage"] = nullptr;
  write(sse_data(dump(json)));
}

}  // namespace baltoro::serve
