#include "serve/api/api.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <cctype>
#include <charconv>
#include <chrono>
#include <string>
#include <string_view>
#include <utility>

#include "serve/api/chat_request.h"
#include "serve/api/chat_response.h"
#include "serve/api/completion.h"
#include "serve/api/errors.h"
#include "serve/api/generation.h"
#include "serve/api/messages_request.h"
#include "serve/api/messages_response.h"
#include "serve/api/token_routes.h"

namespace baltoro::serve {
namespace {

struct Call {
  std::shared_ptr<Service> service;
  const HttpRequest& http;
  std::shared_ptr<HttpReply> reply;

  const Model& model() const { return service->model; }
};

void send_json(const Call& call, const Json& json) {
  call.reply->send(200, {{"Content-Type", "application/json"}}, dump(json));
}

// The body as JSON; the fields view it.
template <typename Read>
auto with_body(const Call& call, const Read& read) {
  const JsonValue root = parse_json(call.http.body, "request");
  const JsonField request{&root, ""};
  request.expect(JsonValue::Kind::kObject, "an object");
  return read(request);
}

std::string client_of(const HttpRequest& request) {
  return request.key_name.empty() ? request.client_address : request.key_name;
}

ResponseHead head_of(const Call& call, std::string_view prefix) {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return {.id = random_id(prefix),
          .created = std::chrono::duration_cast<std::chrono::seconds>(now).count(),
          .model = call.model().name(),
          .fingerprint = call.model().fingerprint};
}

void start(const Call& call, AnswerRequest request, std::unique_ptr<Responder> responder) {
  request.client = client_of(call.http);
  start_generation(call.service, std::move(request), call.reply, std::move(responder));
}

void chat_completions(const Call& call) {
  AnswerRequest request = with_body(
      call, [&](const JsonField& body) { return parse_chat_request(body, call.model()); });
  ResponseHead head = head_of(call, "chatcmpl-");
  const Tokenizer& tokenizer = call.model().tokenizer;
  std::unique_ptr<Responder> responder;
  if (request.fields.stream) {
    responder = std::make_unique<ChatStream>(call.reply, std::move(head), tokenizer, request);
  } else {
    responder = std::make_unique<WholeResponder>(
        call.reply, request.total_choices(), ErrorShape::kOpenAi,
        [head = std::move(head), tokenizer, logprobs = request.logprobs](const auto& choices,
                                                                         const Usage& usage) {
          return chat_completion(head, tokenizer, logprobs, choices, usage);
        });
  }
  start(call, std::move(request), std::move(responder));
}

void completions(const Call& call) {
  CompletionRequest request = with_body(
      call, [&](const JsonField& body) { return parse_completion_request(body, call.model()); });
  ResponseHead head = head_of(call, "cmpl-");
  const Tokenizer& tokenizer = call.model().tokenizer;
  std::unique_ptr<Responder> responder;
  AnswerRequest answer = request.answer;
  if (answer.fields.stream) {
    responder = std::make_unique<CompletionStream>(call.reply, std::move(head), tokenizer, request);
  } else {
    responder = std::make_unique<WholeResponder>(
        call.reply, answer.total_choices(), ErrorShape::kOpenAi,
        [head = std::move(head), tokenizer, request = std::move(request)](const auto& choices,
                                                                          const Usage& usage) {
          return text_completion(head, tokenizer, request, choices, usage);
        });
  }
  start(call, std::move(answer), std::move(responder));
}

void messages(const Call& call) {
  AnswerRequest request = with_body(
      call, [&](const JsonField& body) { return parse_messages_request(body, call.model()); });
  ResponseHead head = head_of(call, "msg_");
  std::unique_ptr<Responder> responder;
  if (request.fields.stream) {
    const auto prompt_tokens = static_cast<std::int64_t>(request.prompts.front().size());
    responder = std::make_unique<MessageStream>(call.reply, std::move(head), prompt_tokens);
  } else {
    responder = std::make_unique<WholeResponder>(
        call.reply, 1, ErrorShape::kAnthropic,
        [head = std::move(head)](const auto& choices, const Usage& usage) {
          return message_object(head, choices.front(), usage);
        });
  }
  start(call, std::move(request), std::move(responder));
}

void count_tokens(const Call& call) {
  const Conversation conversation = with_body(call, [&](const JsonField& body) {
    if (const auto name = body["model"].optional_string()) call.model().require_name(*name);
    return parse_messages_conversation(body, call.model());
  });
  send_json(call, {{"input_tokens", call.model().require_format().render(conversation).size()}});
}

Json model_json(const Model& model, const std::string& name, ErrorShape shape) {
  if (shape == ErrorShape::kAnthropic) {
    const std::chrono::system_clock::time_point created{std::chrono::seconds(model.created)};
    return {
        {"type", "model"},
        {"id", name},
        {"display_name", name},
        {"created_at", fmt::format("{:%Y-%m-%dT%H:%M:%SZ}",
                                   fmt::gmtime(std::chrono::system_clock::to_time_t(created)))}};
  }
  return {{"id", name},
          {"object", "model"},
          {"created", model.created},
          {"owned_by", "baltoro"},
          {"max_model_len", model.max_context}};
}

void list_models(const Call& call) {
  const ErrorShape shape = error_shape(call.http);
  const Model& model = call.model();
  Json data = Json::array();
  for (const std::string& name : model.names) data.push_back(model_json(model, name, shape));
  if (shape == ErrorShape::kOpenAi) {
    return send_json(call, {{"object", "list"}, {"data", std::move(data)}});
  }
  send_json(call, {{"data", std::move(data)},
                   {"has_more", false},
                   {"first_id", model.names.front()},
                   {"last_id", model.names.back()}});
}

constexpr std::string_view kModels = "/v1/models";

// Names may contain '/', and clients may write it as %2F.
std::string decode_percent(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    unsigned value = 0;
    const auto digits = text.substr(i + 1, 2);
    const bool hex = text[i] == '%' && digits.size() == 2 &&
                     std::isxdigit(static_cast<unsigned char>(digits[0])) &&
                     std::isxdigit(static_cast<unsigned char>(digits[1]));
    if (!hex) {
      out += text[i];
      continue;
    }
    std::from_chars(digits.data(), digits.data() + 2, value, 16);
    out += static_cast<char>(value);
    i += 2;
  }
  return out;
}

void get_model(const Call& call) {
  const std::string name =
      decode_percent(std::string_view(call.http.path).substr(kModels.size() + 1));
  call.model().require_name(name);
  send_json(call, model_json(call.model(), name, error_shape(call.http)));
}

void tokenize_route(const Call& call) {
  send_json(call,
            with_body(call, [&](const JsonField& body) { return tokenize(body, call.model()); }));
}

void detokenize_route(const Call& call) {
  send_json(call,
            with_body(call, [&](const JsonField& body) { return detokenize(body, call.model()); }));
}

struct Route {
  std::string_view path;  // one that ends in '/' stands for all that begin with it
  std::string_view method;
  void (*run)(const Call&);

  bool matches(std::string_view target) const {
    return path.ends_with('/') ? target.starts_with(path) && target != path : target == path;
  }
};

constexpr Route kRoutes[] = {
    {"/v1/chat/completions", "POST", chat_completions},
    {"/v1/completions", "POST", completions},
    {"/v1/messages", "POST", messages},
    {"/v1/messages/count_tokens", "POST", count_tokens},
    {kModels, "GET", list_models},
    {"/v1/models/", "GET", get_model},
    {"/tokenize", "POST", tokenize_route},
    {"/detokenize", "POST", detokenize_route},
};

const Route* find_route(std::string_view path) {
  for (const Route& route : kRoutes) {
    if (route.matches(path)) return &route;
  }
  return nullptr;
}

void dispatch(const Call& call) {
  const Route* route = find_route(call.http.path);
  if (route == nullptr) {
    throw RequestError({.status = 404,
                        .message = fmt::format("there is no {} on this server", call.http.path),
                        .code = "not_found"});
  }
  if (route->method == call.http.method) return route->run(call);
  const HttpError error = {.status = 405,
                           .message = fmt::format("{} takes {}, not {}", call.http.path,
                                                  route->method, call.http.method),
                           .code = "method_not_allowed"};
  call.reply->send(error.status,
                   {{"Content-Type", "application/json"}, {"Allow", std::string(route->method)}},
                   error_body(error, error_shape(call.http)));
}

}  // namespace

Api::Api(Model model) : service_(std::make_shared<Service>(std::move(model))) {}

Api::~Api() { service_->finisher.close(); }

void Api::handle(const HttpRequest& request, const std::shared_ptr<HttpReply>& reply) {
  try {
    dispatch({service_, request, reply});
  } catch (const std::exception& error) {
    send_error(*reply, describe(error), error_shape(request));
  }
}

}  // namespace baltoro::serve
