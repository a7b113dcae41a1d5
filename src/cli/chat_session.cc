#include "cli/chat_session.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "cli/answer.h"
#include "cli/run_stats.h"
#include "core/stopwatch.h"

namespace baltoro::cli {
namespace {

// A snapshot costs one KDA state; older turns are read again.
constexpr std::size_t kMaxSnapshots = 4;

std::int64_t common_prefix(std::span<const TokenId> a, std::span<const TokenId> b) {
  const auto [end, unused] = std::ranges::mismatch(a, b);
  return end - a.begin();
}

}  // namespace

ChatSession::ChatSession(OpenModel model, ChatFormat format, GenerateOptions options)
    : model_(std::move(model)),
      tokenizer_(model_.require_tokenizer("chat")),
      format_(std::move(format)),
      options_(std::move(options)) {
  for (TokenId id : format_.stop_ids()) options_.stop_ids.push_back(id);
  options_.banned = unusable_ids(tokenizer_, model_.engine->info().vocab_size);
}

std::int64_t ChatSession::read(const std::vector<TokenId>& ids) {
  const std::int64_t common = session_ ? common_prefix(session_->tokens(), ids) : 0;
  const auto size = static_cast<std::int64_t>(ids.size());
  if (session_ && (common < session_->position() || common == size)) {
    // At least one token must be read, so that there are logits of this prompt.
    const std::int64_t usable = std::min(common, size - 1);
    std::erase_if(snapshots_, [&](const Snapshot& s) { return s.position() > usable; });
    if (snapshots_.empty()) {
      session_.reset();
    } else {
      session_->rewind(snapshots_.back());
    }
  }
  if (!session_) session_.emplace(model_.engine->new_session());
  const std::int64_t begin = session_->position();
  session_->prefill(std::span(ids).subspan(static_cast<std::size_t>(begin)));
  snapshots_.push_back(session_->snapshot());
  if (snapshots_.size() > kMaxSnapshots) snapshots_.erase(snapshots_.begin());
  return size - begin;
}

ChatAnswer ChatSession::answer(const Conversation& conversation, std::uint64_t seed,
                               const std::function<void(const ChatDelta&)>& on_delta,
                               const std::function<bool()>& cancelled) {
  options_.sampling.seed = seed;
  try {
    return generate(conversation, on_delta, cancelled);
  } catch (...) {
    // The session may be unusable.
    snapshots_.clear();
    session_.reset();
    throw;
  }
}

ChatAnswer ChatSession::generate(const Conversation& conversation,
                                 const std::function<void(const ChatDelta&)>& on_delta,
                                 const std::function<bool()>& cancelled) {
  ChatAnswer answer;
  const std::vector<TokenId> ids = format_.render(conversation);
  Stopwatch watch;
  answer.stats.prompt_tokens = read(ids);
  answer.stats.first_position = session_->position();
  answer.stats.prefill_seconds = watch.lap();
  const std::uint64_t paged_before = model_.engine->paged_bytes();

  // The number of the message tells the calls of one answer from those of another.
  ChatParser parser =
      format_.parser(conversation, fmt::format("call_{}_", conversation.messages.size()));
  Answer generated =
      generate_answer(*session_, tokenizer_, std::move(parser), options_, on_delta, cancelled);
  answer.stats.generated_tokens = generated.num_tokens;
  answer.stats.decode_seconds = watch.lap();
  answer.stats.decode_paged_bytes =
      static_cast<std::int64_t>(model_.engine->paged_bytes() - paged_before);
  answer.result = std::move(generated.result);
  answer.cancelled = generated.cancelled;
  return answer;
}

void ChatSession::check(const Conversation& conversation) const { format_.segments(conversation); }

bool ChatSession::has_thinking() const { return format_.kind() != ChatFormat::Kind::kK2Instruct; }

std::string ChatSession::describe(const ChatAnswer& answer) const {
  return cli::describe(answer.stats, *model_.engine, options_);
}

}  // namespace baltoro::cli
