// The generation loop: choose, feed back, decode to text, stop. Works on a session that has read
// its prompt.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "baltoro/constraint.h"
#include "baltoro/sampler.h"
#include "baltoro/session.h"
#include "baltoro/tokenizer.h"
#include "baltoro/types.h"

namespace baltoro {

// Why a generation ended.
enum class StopReason : std::uint8_t {
  kStopToken,
  kStopString,
  kMaxTokens,
  kCancelled,  // the callback said so
};

struct GenerateOptions {
  SamplingParams sampling;
  std::int64_t max_tokens = 256;
  std::vector<TokenId> stop_ids;
  // Generation ends where one of these would appear in the text; it is not part of the text. They
  // may begin in one token and end in a later one. The text is that of all tokens: whoever splits it
  // into channels searches the channel instead. None may be empty; they need a tokenizer.
  std::vector<std::string> stop_strings;
  std::vector<TokenId> banned;  // never chosen
  // Restricts the answer; its state is that of one answer, so each needs one of its own. May be null.
  std::shared_ptr<TokenConstraint> constraint = nullptr;
};

struct GeneratedToken {
  Choice choice;
  std::int64_t index = 0;  // from 0
  bool is_stop = false;    // a stop token: it has no text
  // Text that may be shown now: whole UTF-8 characters, and nothing that a stop string might still
  // take back. Valid during the callback.
  std::string_view text;
};

struct Generation {
  std::vector<TokenId> ids;  // all chosen tokens, the stop token included
  std::string text;
  StopReason reason = StopReason::kMaxTokens;
};

// What generation_config.json asks for: greedy, unless it says do_sample or gives any sampling value.
// The other parameters are at their defaults.
SamplingParams default_sampling(const GenerationDefaults& defaults);

// Generates from session.logits() on. Every chosen token but the last is decoded, so that the
// session ends one token short of prompt + ids: feed ids.back() to continue. On a GPU tokens may be
// drawn there, and the session then ends without logits. The random choice of a
// token depends on (seed, position, logits) and, with penalties, on the tokens before it; what the
// session holds is the prompt. Without a tokenizer there is no text. `on_token` is called once a
// token; false ends the generation. Throws Error{kUsage} for bad options, and as Sampler::choose
// and Session::decode.
Generation generate(Session& session, const Tokenizer* tokenizer, const GenerateOptions& options,
                    const std::function<bool(const GeneratedToken&)>& on_token = {});

// The reserved ids of a tokenizer that lie within a vocabulary of vocab_size, and the ids of the
// model's output that the tokenizer does not know: what a sampler must never choose.
std::vector<TokenId> unusable_ids(const Tokenizer& tokenizer, std::int64_t vocab_size);

}  // namespace baltoro
