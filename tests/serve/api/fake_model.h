// A model whose answers a test writes down: the handlers without an engine and without a socket.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "serve/api/api.h"
#include "serve/api/collecting_reply.h"
#include "text/chat_test_util.h"

namespace baltoro::serve {

// Answers with texts in which special tokens are written by name. Each token has logprob -0.5 and, of
// alternatives that were asked for, itself and its neighbours.
class FakeScheduler {
 public:
  explicit FakeScheduler(Tokenizer tokenizer) : tokenizer_(std::move(tokenizer)) {}

  // What choice i of the next requests says; the last stands for all behind it.
  std::vector<std::string> answers = {""};
  // Where set: how each choice ends, instead of by its tokens.
  std::optional<GenerationEnd> end;
  Refusal refuse = Refusal::kNone;
  std::optional<Error> throws;
  bool hold = false;  // tokens come with run() alone
  std::int64_t reused_tokens = 0;

  std::vector<GenerationRequest> requests;
  std::vector<std::shared_ptr<Ticket>> tickets;
  std::vector<std::pair<int, std::vector<TokenId>>> remembered;

  Submission submit(GenerationRequest request) {
    if (throws) throw *throws;
    if (refuse != Refusal::kNone) return {nullptr, refuse, std::chrono::seconds(3)};
    tickets.push_back(std::make_shared<Ticket>());
    requests.push_back(std::move(request));
    if (!hold) run();
    return {tickets.back(), Refusal::kNone, {}};
  }

  // Generates the answers to the last request.
  void run() {
    GenerationRequest request = requests.back();
    for (int choice = 0; choice < request.num_choices; ++choice) generate(request, choice);
  }

 private:
  void generate(const GenerationRequest& request, int choice) {
    const auto idx = std::min(static_cast<std::size_t>(choice), answers.size() - 1);
    const std::vector<TokenId> ids = tokenizer_.encode_control(answers[idx]);
    GenerationEnd result;
    result.prompt_tokens = static_cast<std::int64_t>(request.prompt.size());
    result.reused_tokens = reused_tokens;
    result.reason = EndReason::kMaxTokens;
    for (const TokenId id : ids) {
      if (result.generated_tokens == request.max_tokens) break;
      if (tickets.back()->cancelled()) {
        result.reason = EndReason::kCancelled;
        break;
      }
      GeneratedToken token;
      token.choice = choice_of(id, request.sampling.num_logprobs);
      token.index = result.generated_tokens++;
      token.is_stop = std::ranges::find(request.stop_ids, id) != request.stop_ids.end();
      const bool go_on = request.on_token(choice, token);
      if (token.is_stop) result.reason = EndReason::kStopToken;
      if (!go_on) result.reason = EndReason::kConsumer;
      if (token.is_stop || !go_on) break;
    }
    if (end) result = *end;
    request.on_end(choice, result);
  }

  Choice choice_of(TokenId id, int num_logprobs) const {
    Choice choice{id, -0.5f, {}};
    for (int i = 0; i < num_logprobs; ++i) {
      choice.top.push_back({(id + i) % tokenizer_.vocab_size(), -0.5f - static_cast<float>(i)});
    }
    return choice;
  }

  Tokenizer tokenizer_;
};

// An Api over the fake scheduler, for one format of the family.
struct FakeServer {
  explicit FakeServer(const std::vector<std::string>& specials = xtml_specials(),
                      std::optional<std::chrono::seconds> time_limit = std::nullopt)
      : tokenizer(byte_tokenizer(specials)),
        scheduler(tokenizer),
        timeout(time_limit),
        api(model()) {}

  Model model() {
    Model out{
        .names = {"tiny", "alias/tiny"},
        .tokenizer = tokenizer,
        .format = ChatFormat(tokenizer, std::nullopt),
        .generation = {.do_sample = true,
                       .temperature = 0.75f,
                       .top_p = 0.5f,
                       .min_p = std::nullopt,
                       .top_k = std::nullopt,
                       .max_new_tokens = std::nullopt,
                       .stop_ids = {*tokenizer.special_id("[EOS]")}},
        .created = 1700000000,
        .vocab_size = tokenizer.vocab_size(),
        .max_context = 20000,
        .default_max_tokens = 5000,
        .timeout = timeout,
        .fingerprint = "fp_1",
        .banned = {},
        .submit =
            [this](GenerationRequest request) { return scheduler.submit(std::move(request)); },
        .remember =
            [this](const std::shared_ptr<Ticket>& ticket, int choice, std::vector<TokenId> ids) {
              EXPECT_NE(ticket, nullptr);
              scheduler.remembered.emplace_back(choice, std::move(ids));
            }};
    return out;
  }

  std::shared_ptr<CollectingReply> start(std::string method, std::string path, std::string body,
                                         HttpHeaders headers = {}) {
    auto reply = std::make_shared<CollectingReply>();
    HttpRequest request;
    request.method = std::move(method);
    request.path = std::move(path);
    request.headers = std::move(headers);
    request.body = std::move(body);
    request.client_address = "127.0.0.1";
    api.handle(request, reply);
    return reply;
  }

  std::shared_ptr<CollectingReply> post(const std::string& path, const std::string& body) {
    auto reply = start("POST", path, body);
    EXPECT_TRUE(reply->wait()) << path << " " << body;
    return reply;
  }

  std::shared_ptr<CollectingReply> chat(const std::string& body) {
    return post("/v1/chat/completions", body);
  }

  std::vector<TokenId> prompt() const { return scheduler.requests.back().prompt; }

  Tokenizer tokenizer;
  FakeScheduler scheduler;
  std::optional<std::chrono::seconds> timeout;
  Api api;
};

}  // namespace baltoro::serve
