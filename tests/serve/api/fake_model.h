// A model whose answers a test writes down, and a reply that keeps what it is told: the handlers
// without an engine and without a socket.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "serve/api/api.h"
#include "text/chat_test_util.h"

namespace baltoro::serve {

using Json = nlohmann::ordered_json;

class CollectingReply final : public HttpReply {
 public:
  void send(int status, HttpHeaders headers, std::string body) override {
    finish([&] {
      status_ = status;
      headers_ = std::move(headers);
      body_ = std::move(body);
    });
  }
  void begin_stream(int status, HttpHeaders headers) override {
    const std::lock_guard lock(mutex_);
    if (done_ || streaming_) return;
    streaming_ = true;
    status_ = status;
    headers_ = std::move(headers);
  }
  bool write(std::string chunk) override {
    const std::lock_guard lock(mutex_);
    if (done_ || gone_ || !streaming_) return false;
    body_ += chunk;
    changed_.notify_all();
    return true;
  }
  void end() override {
    finish([] {});
  }
  void on_close(std::function<void()> callback) override {
    std::unique_lock lock(mutex_);
    if (!gone_) {
      callback_ = std::move(callback);
      return;
    }
    lock.unlock();
    callback();
  }
  void note_token(int) override { ++noted_tokens; }
  void note_usage(const HttpUsage& usage) override { noted_usage = usage; }

  // The client goes.
  void hang_up() {
    std::function<void()> callback;
    {
      const std::lock_guard lock(mutex_);
      gone_ = true;
      callback = std::exchange(callback_, nullptr);
    }
    if (callback) callback();
  }

  // Waits for the end; false after ten seconds.
  bool wait() {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(10), [&] { return done_; });
  }
  // Waits until something was written.
  bool wait_for_write() {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(10), [&] { return !body_.empty(); });
  }

  bool done() const { return done_; }
  bool streamed() const { return streaming_; }
  int status() const { return status_; }
  const HttpHeaders& headers() const { return headers_; }
  const std::string& body() const { return body_; }
  Json json() const { return Json::parse(body_); }

  // The data of the events of a stream, "[DONE]" as a string, each with "event" where it has a name.
  std::vector<Json> events() const {
    std::vector<Json> out;
    std::size_t begin = 0;
    std::string name;
    while (begin < body_.size()) {
      const std::size_t end = body_.find('\n', begin);
      if (end == std::string::npos) break;
      const std::string line = body_.substr(begin, end - begin);
      begin = end + 1;
      if (line.starts_with("event: ")) name = line.substr(7);
      if (!line.starts_with("data: ")) continue;
      const std::string data = line.substr(6);
      out.push_back(data == "[DONE]" ? Json(data) : Json::parse(data));
      if (!name.empty()) {
        EXPECT_EQ(out.back()["type"], name);
      }
    }
    return out;
  }

  int noted_tokens = 0;
  HttpUsage noted_usage;

 private:
  void finish(const std::function<void()>& change) {
    const std::lock_guard lock(mutex_);
    if (done_) return;
    change();
    done_ = true;
    callback_ = nullptr;
    changed_.notify_all();
  }

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::function<void()> callback_;
  bool streaming_ = false;
  bool done_ = false;
  bool gone_ = false;
  int status_ = 0;
  HttpHeaders headers_;
  std::string body_;
};

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
  explicit FakeServer(const std::vector<std::string>& specials = xtml_specials())
      : tokenizer(byte_tokenizer(specials)), scheduler(tokenizer), api(model()) {}

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
        .timeout = std::nullopt,
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
  Api api;
};

}  // namespace baltoro::serve
