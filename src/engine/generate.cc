#include "baltoro/generate.h"

#include <algorithm>
#include <optional>

#include "core/error.h"
#include "text/stop_matcher.h"

namespace baltoro {
namespace {

void check(const GenerateOptions& options, const Tokenizer* tokenizer) {
  if (options.max_tokens < 0) {
    fail(ErrorCode::kUsage, "max_tokens is {}; it must be at least 0", options.max_tokens);
  }
  if (tokenizer == nullptr && !options.stop_strings.empty()) {
    fail(ErrorCode::kUsage, "stop strings need a tokenizer, and the model has none");
  }
}

// Ids to text that may be shown: whole characters, stop strings removed.
class TextStream {
 public:
  TextStream(const Tokenizer* tokenizer, const std::vector<std::string>& stops) : matcher_(stops) {
    if (tokenizer != nullptr) decoder_.emplace(*tokenizer);
  }
  std::string feed(TokenId id) {
    return decoder_ ? matcher_.feed(decoder_->feed(id)) : std::string();
  }
  std::string finish() {
    if (!decoder_) return {};
    std::string text = matcher_.feed(decoder_->finish());
    return text + matcher_.finish();
  }
  bool matched() const { return matcher_.matched(); }

 private:
  std::optional<StreamDecoder> decoder_;
  StopMatcher matcher_;
};

Choice next_choice(Session& session, Sampler& sampler) {
  return sampler.choose(session.logits(), static_cast<std::uint64_t>(session.position()));
}

// The choice after a token that is decoded here. Where logits are a device's, they stay there if they
// can.
Choice decode(Session& session, TokenId token, Sampler& sampler) {
  std::optional<DrawRequest> draw;
  if (session.engine().info().memory.device_limit > 0) {
    draw = sampler.draw_request(static_cast<std::uint64_t>(session.position() + 1));
  }
  BatchItem item{.session = &session,
                 .tokens = {&token, 1},
                 .origin = Origin::kGenerated,
                 .draw = draw ? &*draw : nullptr};
  session.engine().forward({&item, 1});
  if (item.error) throw Error(*item.error);
  if (!item.drawn) return next_choice(session, sampler);
  return {.token = item.drawn->token, .logprob = item.drawn->logprob, .top = {}};
}

}  // namespace

SamplingParams default_sampling(const GenerationDefaults& defaults) {
  SamplingParams sampling;
  const bool samples = defaults.do_sample.value_or(defaults.temperature || defaults.top_p ||
                                                   defaults.top_k || defaults.min_p);
  sampling.temperature = samples ? defaults.temperature.value_or(1.0f) : 0.0f;
  if (!samples) return sampling;
  sampling.top_k = defaults.top_k.value_or(0);
  sampling.top_p = defaults.top_p.value_or(1.0f);
  sampling.min_p = defaults.min_p.value_or(0.0f);
  return sampling;
}

Generation generate(Session& session, const Tokenizer* tokenizer, const GenerateOptions& options,
                    const std::function<bool(const GeneratedToken&)>& on_token) {
  check(options, tokenizer);
  Sampler sampler(options.sampling, options.banned, options.constraint);
  sampler.read_prompt(session.tokens());
  TextStream stream(tokenizer, options.stop_strings);
  Generation result;
  for (std::int64_t i = 0; i < options.max_tokens; ++i) {
    GeneratedToken token;
    token.choice =
        i == 0 ? next_choice(session, sampler) : decode(session, result.ids.back(), sampler);
    token.index = i;
    const TokenId id = token.choice.token;
    token.is_stop = std::ranges::find(options.stop_ids, id) != options.stop_ids.end();
    result.ids.push_back(id);

    std::string text = token.is_stop ? std::string() : stream.feed(id);
    const bool is_last = token.is_stop || stream.matched() || i + 1 == options.max_tokens;
    if (is_last) text += stream.finish();
    token.text = text;
    result.text += text;
    const bool go_on = !on_token || on_token(token);

    if (token.is_stop) result.reason = StopReason::kStopToken;
    if (stream.matched()) result.reason = StopReason::kStopString;
    if (is_last) break;
    if (!go_on) {
      result.reason = StopReason::kCancelled;
      result.text += stream.finish();
      break;
    }
  }
  return result;
}

std::vector<TokenId> unusable_ids(const Tokenizer& tokenizer, std::int64_t vocab_size) {
  std::vector<TokenId> ids;
  for (std::int64_t i = 0; i < vocab_size; ++i) {
    const auto id = static_cast<TokenId>(i);
    if (i >= tokenizer.vocab_size() || tokenizer.is_reserved(id)) ids.push_back(id);
  }
  return ids;
}

}  // namespace baltoro
