// Any request into the handlers of the server, without a socket and with a scheduler that only
// pretends: each is answered once, with a status that exists and text that is UTF-8.
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "serve/api/api.h"
#include "serve/api/collecting_reply.h"
#include "text/chat_test_util.h"
#include "text/utf8.h"

namespace {

using namespace baltoro;
using namespace baltoro::serve;

constexpr std::array<std::string_view, 8> kPaths = {"/v1/chat/completions",
                                                    "/v1/completions",
                                                    "/v1/messages",
                                                    "/v1/messages/count_tokens",
                                                    "/tokenize",
                                                    "/detokenize",
                                                    "/v1/models",
                                                    "/v1/models/tiny"};

// The tokens of `answer`, cut as the request says.
Submission pretend(const GenerationRequest& request, const std::vector<TokenId>& answer) {
  if (request.num_choices > 4) return {nullptr, Refusal::kQueueFull, std::chrono::seconds(1)};
  const auto ticket = std::make_shared<Ticket>();
  if (request.prompt.empty() || request.max_tokens < 1) std::abort();
  for (int choice = 0; choice < request.num_choices; ++choice) {
    GenerationEnd end;
    end.prompt_tokens = static_cast<std::int64_t>(request.prompt.size());
    for (const TokenId id : answer) {
      if (end.generated_tokens == request.max_tokens) break;
      GeneratedToken token;
      token.choice.token = id;
      token.choice.top.resize(static_cast<std::size_t>(request.sampling.num_logprobs));
      token.index = end.generated_tokens++;
      token.is_stop = std::ranges::find(request.stop_ids, id) != request.stop_ids.end();
      const bool go_on = request.on_token(choice, token);
      if (token.is_stop) end.reason = EndReason::kStopToken;
      if (!go_on) end.reason = EndReason::kConsumer;
      if (token.is_stop || !go_on) break;
    }
    request.on_end(choice, end);
  }
  return {ticket, Refusal::kNone, {}};
}

class Server {
 public:
  Server(const std::vector<std::string>& specials, const std::string& answer)
      : tokenizer_(byte_tokenizer(specials)),
        answer_(tokenizer_.encode_control(answer)),
        api_(Model{
            .names = {"tiny"},
            .tokenizer = tokenizer_,
            .format = ChatFormat(tokenizer_, std::nullopt),
            .generation = {},
            .created = 1,
            .vocab_size = tokenizer_.vocab_size(),
            .max_context = 50000,
            .default_max_tokens = 100,
            .timeout = std::nullopt,
            .fingerprint = "fp",
            .banned = {},
            .submit =
                [this](const GenerationRequest& request) { return pretend(request, answer_); },
            .remember = [](const std::shared_ptr<Ticket>&, int, std::vector<TokenId>) {}}) {}

  void answer(const HttpRequest& request) {
    const auto reply = std::make_shared<CollectingReply>();
    api_.handle(request, reply);
    if (!reply->wait()) std::abort();
    const int status = reply->status();
    constexpr std::array kStatus = {200, 400, 404, 405, 429};
    if (std::ranges::find(kStatus, status) == kStatus.end()) std::abort();
    if (valid_utf8_prefix(reply->body()) != reply->body().size()) std::abort();
    if (reply->streamed()) {
      reply->events();  // throws where one is no JSON
    } else {
      reply->json();
    }
  }

 private:
  Tokenizer tokenizer_;
  std::vector<TokenId> answer_;
  Api api_;
};

Server& server(unsigned kind) {
  static Server xtml(
      xtml_specials(),
      "thought \xE2\x82<|close|>think<|sep|><|open|>response<|sep|>text\xFF"
      "<|close|>response<|sep|><|open|>tools<|sep|><|open|>call tool=\"f\" index=\"1\""
      "<|sep|><|open|>argument key=\"k\" type=\"string\"<|sep|>v<|close|>argument"
      "<|sep|><|close|>call<|sep|><|close|>tools<|sep|><|close|>message<|sep|>"
      "<|end_of_msg|>");
  static Server k2(k2_specials(true),
                   "<think>thought</think>text<|tool_calls_section_begin|><|tool_call_begin|>"
                   "functions.f:0<|tool_call_argument_begin|>{\"k\": [1<|tool_call_end|>"
                   "<|tool_calls_section_end|><|im_end|>");
  return kind == 0 ? xtml : k2;
}

}  // namespace

// The first byte chooses the path and the format; above 127 the path is the first line instead. The
// rest is the body.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  std::string_view rest(reinterpret_cast<const char*>(data) + 1, size - 1);
  HttpRequest request;
  const unsigned route = data[0] % kPaths.size();
  request.path = kPaths[route];
  request.method = route < 6 ? "POST" : "GET";
  if (data[0] > 127) {
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    request.path = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  request.body = rest;
  request.client_address = "127.0.0.1";
  server(data[0] / kPaths.size() % 2).answer(request);
  return 0;
}
