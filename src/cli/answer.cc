#include "cli/answer.h"

#include <utility>

namespace baltoro::cli {

Answer generate_answer(Session& session, const Tokenizer& tokenizer, ChatParser parser,
                       GenerateOptions options,
                       const std::function<void(const ChatDelta&)>& on_delta,
                       const std::function<bool()>& cancelled) {
  // In the raw text they would also be found in the reasoning and across markers.
  AnswerStream stream(std::move(parser), std::exchange(options.stop_strings, {}));
  const auto forward = [&](const std::vector<ChatDelta>& deltas) {
    if (!on_delta) return;
    for (const ChatDelta& delta : deltas) on_delta(delta);
  };
  const Generation generation =
      generate(session, &tokenizer, options, [&](const GeneratedToken& token) {
        forward(stream.feed(token.choice.token));
        return !stream.matched() && !(cancelled && cancelled());
      });
  forward(stream.finish(stream.matched() || generation.reason == StopReason::kStopToken));
  return {.result = stream.result(),
          .num_tokens = static_cast<std::int64_t>(generation.ids.size()),
          .cancelled = generation.reason == StopReason::kCancelled && !stream.matched()};
}

}  // namespace baltoro::cli
