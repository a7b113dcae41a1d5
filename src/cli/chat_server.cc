#include "cli/chat_server.h"

#include <fmt/format.h>

#include <utility>

#include "cli/chat_file.h"
#include "cli/chat_stream.h"
#include "cli/format.h"
#include "cli/sse_reader.h"
#include "core/error.h"
#include "core/stopwatch.h"
#include "text/json_field.h"
#include "text/json_print.h"

namespace baltoro::cli {
namespace {

const char* advice(int status) {
  switch (status) {
    case 401:
      return "; give a key of the server's with --api-key-file";
    case 404:
      return "; does --server name a server with OpenAI's interface?";
    default:
      return "";
  }
}

[[noreturn]] void refuse(const ServerUrl& url, const HttpAnswer& answer) {
  const auto said = server_message(answer.body);
  std::string message = fmt::format("{} answered {}", url.text, answer.status);
  if (said) message += ": " + *said;
  message += advice(answer.status);
  if (!said && !answer.retry_after.empty()) {
    message += fmt::format("; try again in {} s", answer.retry_after);
  }
  fail(ErrorCode::kIo, "{}", message);
}

// The first model that the server names.
std::string first_model(const ServerUrl& url, const std::string& body) {
  try {
    const JsonValue root = parse_json(body, "models");
    const std::vector<JsonField> models = JsonField{&root, ""}["data"].items();
    if (models.empty()) fail(ErrorCode::kUsage, "data: there is no model");
    return models.front()["id"].required_string();
  } catch (const Error& error) {
    fail(ErrorCode::kIo, "{}{}/models is no list of models ({}){}", url.text, url.base,
         error.what(), advice(404));
  }
}

}  // namespace

ChatServer::ChatServer(ChatServerOptions options) : options_(std::move(options)) {
  const HttpAnswer answer = ask({.method = "GET", .path = "/models"});
  model_ = first_model(options_.url, answer.body);
}

HttpAnswer ChatServer::ask(HttpCall call, const std::function<void(std::string_view)>& on_piece,
                           const std::function<bool()>& cancelled) const {
  call.key = options_.key;
  HttpAnswer answer = ask_server(options_.url, call, on_piece, cancelled);
  if (!answer.cancelled && answer.status != 200) refuse(options_.url, answer);
  return answer;
}

std::string ChatServer::request_body(const Conversation& conversation, std::uint64_t seed) const {
  std::string messages;
  for (const Message& message : conversation.messages) {
    messages += (messages.empty() ? "" : ",") + message_json(message);
  }
  const SamplingOptions& sampling = options_.sampling;
  nlohmann::ordered_json fields = {{"model", model_},
                                   {"stream", true},
                                   {"stream_options", {{"include_usage", true}}},
                                   {"seed", static_cast<std::int64_t>(seed)}};
  if (sampling.temperature) fields["temperature"] = shortest(*sampling.temperature);
  if (sampling.top_k) fields["top_k"] = *sampling.top_k;
  if (sampling.top_p) fields["top_p"] = shortest(*sampling.top_p);
  if (sampling.min_p) fields["min_p"] = shortest(*sampling.min_p);
  if (sampling.max_tokens) fields["max_tokens"] = *sampling.max_tokens;
  if (!sampling.stop.empty()) fields["stop"] = sampling.stop;
  if (sampling.ignore_stop_ids) fields["ignore_eos"] = true;
  if (!options_.effort.empty()) fields["reasoning_effort"] = options_.effort;
  if (conversation.thinking == false) fields["thinking"] = {{"type", "disabled"}};
  std::string body = json_line(fields);
  body.pop_back();
  body += fmt::format(R"(,"messages":[{}])", messages);
  if (!conversation.tools.empty()) body += fmt::format(R"(,"tools":{})", conversation.tools);
  return body + "}";
}

ChatAnswer ChatServer::answer(const Conversation& conversation, std::uint64_t seed,
                              const std::function<void(const ChatDelta&)>& on_delta,
                              const std::function<bool()>& cancelled) {
  ChatAnswer answer;
  Stopwatch watch;
  SseReader events;
  ChatStream stream(on_delta);
  const HttpAnswer http = ask(
      {.method = "POST", .path = "/chat/completions", .body = request_body(conversation, seed)},
      [&](std::string_view piece) {
        for (const std::string& data : events.feed(piece)) {
          const bool first = !stream.begun();
          stream.feed(data);
          if (first && stream.begun()) {
            answer.stats.prefill_seconds = watch.lap();
          }
        }
      },
      cancelled);
  answer.stats.decode_seconds = watch.lap();
  answer.cancelled = http.cancelled;
  if (!answer.cancelled && !http.body.empty()) {
    fail(ErrorCode::kIo, "{} answered with \"{}\", not with a stream of events{}",
         options_.url.text, http.content_type, advice(404));
  }
  if (!answer.cancelled && !stream.finished()) {
    fail(ErrorCode::kIo, "{} ended its answer before it was complete", options_.url.text);
  }
  answer.result = stream.result();
  const ChatStreamUsage& usage = stream.usage();
  answer.stats.prompt_tokens = usage.prompt_tokens - usage.cached_tokens;
  answer.stats.first_position = usage.prompt_tokens;
  answer.stats.generated_tokens = usage.completion_tokens;
  return answer;
}

std::string ChatServer::describe(const ChatAnswer& answer) const {
  const RunStats& stats = answer.stats;
  const double rate = stats.decode_seconds > 0
                          ? static_cast<double>(stats.generated_tokens) / stats.decode_seconds
                          : 0;
  return fmt::format(
      "server    {}: {} of {} prompt tokens read, first token after {:.0f} ms, {} tokens, {:.1f} "
      "tokens/s\n",
      options_.url.text, stats.prompt_tokens, stats.first_position, stats.prefill_seconds * 1e3,
      stats.generated_tokens, rate);
}

}  // namespace baltoro::cli
