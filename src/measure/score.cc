#include "measure/score.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "baltoro/session.h"
#include "core/error.h"
#include "ops/batch.h"

namespace baltoro {
namespace {

// Logits held at a time; K3 has 655 kB a row.
constexpr std::int64_t kLogitBytes = std::int64_t{64} << 20;

double nats_of(std::span<const float> logits, TokenId target) {
  const double max = static_cast<double>(*std::ranges::max_element(logits));
  double sum = 0;
  for (float x : logits) sum += std::exp(static_cast<double>(x) - max);
  return std::log(sum) + max - static_cast<double>(logits[static_cast<std::size_t>(target)]);
}

// Rows of one forward: whole blocks, so that none is computed twice.
std::int64_t rows_at_a_time(std::int64_t vocab_size) {
  const std::int64_t fit = kLogitBytes / (vocab_size * std::int64_t{sizeof(float)});
  return std::max<std::int64_t>(1, fit / kBlockTokens) * kBlockTokens;
}

void check(const ScoreOptions& options) {
  if (options.context < 2) {
    fail(ErrorCode::kUsage, "the context is {} tokens; it must be at least 2", options.context);
  }
  if (options.stride < 1 || options.stride > options.context) {
    fail(ErrorCode::kUsage, "the stride is {}; it must be between 1 and the context, {}",
         options.stride, options.context);
  }
}

}  // namespace

Score score_document(Engine& engine, std::span<const TokenId> document, const ScoreOptions& options,
                     const std::function<void(std::int64_t)>& progress) {
  check(options);
  const std::int64_t vocab = engine.info().vocab_size;
  const std::int64_t rows = rows_at_a_time(vocab);
  // Input i predicts token i + 1.
  const auto inputs = static_cast<std::int64_t>(document.size()) - 1;
  Score score;
  for (std::int64_t begin = 0; score.predicted < inputs; begin += options.stride) {
    const std::int64_t end = std::min(begin + options.context, inputs);
    const std::int64_t first_scored = begin == 0 ? 0 : begin + options.context - options.stride;
    Session session = engine.new_session();
    for (std::int64_t i = begin; i < end; i += rows) {
      const std::int64_t count = std::min(rows, end - i);
      const std::vector<float> logits = session.prefill_all_logits(
          document.subspan(static_cast<std::size_t>(i), static_cast<std::size_t>(count)));
      for (std::int64_t j = std::max(i, first_scored); j < i + count; ++j) {
        const std::span row(logits.data() + (j - i) * vocab, static_cast<std::size_t>(vocab));
        score.nats += nats_of(row, document[static_cast<std::size_t>(j + 1)]);
        ++score.predicted;
      }
    }
    if (progress) progress(score.predicted);
  }
  return score;
}

}  // namespace baltoro
