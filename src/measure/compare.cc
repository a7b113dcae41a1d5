#include "measure/compare.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>

#include "baltoro/session.h"
#include "core/error.h"
#include "engine/make_backend.h"
#include "measure/hosted_backend.h"
#include "model/loader.h"
#include "model/model.h"
#include "ops/batch.h"

namespace baltoro {
namespace {

// Rows of one pass of the op by op comparison; whole blocks, as in the engine.
constexpr std::int64_t kRows = 4 * kBlockTokens;

// The logits of every prompt token and every generated one.
struct Trace {
  std::vector<float> logits;
  std::vector<TokenId> generated;
};

std::size_t best_of(std::span<const float> row) {
  return static_cast<std::size_t>(std::ranges::max_element(row) - row.begin());
}

// `follow` null: generates greedily; else reads the tokens that the other one generated.
Trace run_side(const CompareInput& input, const EngineOptions& options, const Trace* follow) {
  const std::shared_ptr<Engine> engine = Engine::load(input.dir, options);
  Session session = engine->new_session();
  Trace trace;
  trace.logits = session.prefill_all_logits(input.ids);
  for (std::int64_t i = 0; i < input.num_decode; ++i) {
    const TokenId token = follow != nullptr ? follow->generated[static_cast<std::size_t>(i)]
                                            : static_cast<TokenId>(best_of(session.logits()));
    trace.generated.push_back(token);
    session.decode(token);
    const std::span<const float> row = session.logits();
    trace.logits.insert(trace.logits.end(), row.begin(), row.end());
  }
  return trace;
}

// The lead of the most likely token over the next.
double margin(std::span<const float> row, std::size_t best) {
  double second = -std::numeric_limits<double>::infinity();
  for (std::size_t i = 0; i < row.size(); ++i) {
    if (i != best) second = std::max(second, static_cast<double>(row[i]));
  }
  return static_cast<double>(row[best]) - second;
}

void compare_row(std::span<const float> a, std::span<const float> b, CompareReport& report) {
  double largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    largest = std::max(largest, std::fabs(static_cast<double>(a[i]) - static_cast<double>(b[i])));
  }
  report.max_abs = std::max(report.max_abs, largest);
  const std::size_t best_a = best_of(a), best_b = best_of(b);
  if (best_a != best_b) {
    if (report.first_other_token < 0) report.first_other_token = report.num_positions;
    ++report.num_other_tokens;
    if (margin(a, best_a) < 2 * largest || margin(b, best_b) < 2 * largest) ++report.num_ties;
  }
  ++report.num_positions;
}

void compare_logits(const Trace& a, const Trace& b, std::size_t positions, CompareReport& report) {
  const std::size_t vocab = a.logits.size() / positions;
  double error = 0, power = 0;
  for (std::size_t i = 0; i < positions; ++i) {
    compare_row(std::span(a.logits).subspan(i * vocab, vocab),
                std::span(b.logits).subspan(i * vocab, vocab), report);
  }
  for (std::size_t i = 0; i < a.logits.size(); ++i) {
    const auto x = static_cast<double>(a.logits[i]), y = static_cast<double>(b.logits[i]);
    error += (x - y) * (x - y);
    power += x * x;
  }
  report.nmse = power > 0 ? error / power : 0;
}

// Runs one sequence through the model op by op on both backends.
class OpPass {
 public:
  OpPass(const LoadedModel& loaded, CompareBackend& backend, std::int64_t total)
      : model_(loaded.config, loaded.weights),
        backend_(backend),
        state_(backend, loaded.config),
        workspace_(backend, loaded.config, kRows) {
    const auto pages = static_cast<std::int32_t>((total + kBlockTokens - 1) / kBlockTokens);
    state_.reserve_slots(2);
    state_.reserve_pages(pages);
    for (std::int32_t i = 0; i < pages; ++i) pages_.push_back(i);
  }

  void run(std::span<const TokenId> tokens, Origin origin) {
    while (!tokens.empty()) {
      const std::size_t rows =
          origin == Origin::kGenerated ? 1 : std::min<std::size_t>(tokens.size(), kRows);
      step(tokens.first(rows), origin);
      tokens = tokens.subspan(rows);
    }
  }

 private:
  void step(std::span<const TokenId> tokens, Origin origin) {
    const auto rows = static_cast<std::int64_t>(tokens.size());
    const std::int64_t end = position_ + rows;
    const SequenceRows sequence{.first_row = 0,
                                .num_rows = rows,
                                .start_pos = position_,
                                .state_slot = 0,
                                .boundary_slot = origin == Origin::kPrompt ? 1 : -1,
                                .origin = origin,
                                .pages = std::span(pages_).first(static_cast<std::size_t>(
                                    (end + kBlockTokens - 1) / kBlockTokens))};
    const BatchView batch{tokens, {&sequence, 1}};
    const ConstTensorView normed = model_.forward(backend_, batch, state_, workspace_);
    const auto last = static_cast<std::int32_t>(rows - 1);
    logits_.resize(static_cast<std::size_t>(model_.config().vocab_size));
    model_.logits(backend_, normed, {&last, 1}, logits_.data());
    position_ = end;
  }

  Model model_;
  CompareBackend& backend_;
  SequenceState state_;
  Workspace workspace_;
  std::vector<std::int32_t> pages_;
  std::vector<float> logits_;
  std::int64_t position_ = 0;
};

// Both sides of an op work on the same values, which lie in memory of the host.
std::unique_ptr<Backend> make_host_side(const EngineOptions& options) {
  std::unique_ptr<Backend> backend = make_backend(options);
  if (backend->uses_host_memory()) return backend;
  return std::make_unique<HostedBackend>(std::move(backend));
}

OpComparison load_and_compare_ops(const CompareInput& input, std::span<const TokenId> generated) {
  const LoadedModel loaded = load_model(input.dir, {.config = {input.first.latent_norm_eps},
                                                    .mode = input.first.load,
                                                    .partition = {},
                                                    .progress = {}});
  const std::unique_ptr<Backend> first = make_host_side(input.first);
  const std::unique_ptr<Backend> second = make_host_side(input.second);
  return compare_ops(loaded, *first, *second, input.ids, generated);
}

Verdict judge(const CompareReport& report) {
  if (report.ops.first_exceeding) return Verdict::kDiverged;
  if (report.num_other_tokens == 0) return Verdict::kAgree;
  return report.num_other_tokens == report.num_ties ? Verdict::kTie : Verdict::kDiverged;
}

}  // namespace

std::string_view to_string(Verdict verdict) {
  switch (verdict) {
    case Verdict::kIdentical:
      return "identical";
    case Verdict::kAgree:
      return "agree";
    case Verdict::kTie:
      return "tie";
    case Verdict::kDiverged:
      return "diverged";
  }
  return "?";
}

OpComparison compare_ops(const LoadedModel& loaded, Backend& first, Backend& second,
                         std::span<const TokenId> prompt, std::span<const TokenId> generated) {
  CompareBackend backend(first, second);
  OpPass pass(loaded, backend, static_cast<std::int64_t>(prompt.size() + generated.size()));
  pass.run(prompt, Origin::kPrompt);
  pass.run(generated, Origin::kGenerated);

  OpComparison result;
  result.route_flips = backend.route_flips();
  for (const OpDifference& difference : backend.differences()) {
    const double excess = difference.excess();
    if (excess > 1 && !result.first_exceeding) result.first_exceeding = difference;
    if (!result.worst || excess > result.worst->excess()) result.worst = difference;
  }
  return result;
}

CompareReport compare(const CompareInput& input,
                      const std::function<void(std::string_view)>& stage) {
  if (input.ids.empty()) fail(ErrorCode::kUsage, "nothing to compare: the input is empty");
  if (input.num_decode < 0) {
    fail(ErrorCode::kUsage, "{} tokens to generate; give 0 or more", input.num_decode);
  }
  const auto say = [&](std::string_view what) {
    if (stage) stage(what);
  };
  say("first side");
  const Trace a = run_side(input, input.first, nullptr);
  say("second side");
  const Trace b = run_side(input, input.second, &a);

  CompareReport report;
  const std::size_t positions = input.ids.size() + static_cast<std::size_t>(input.num_decode);
  compare_logits(a, b, positions, report);
  const bool same_bits =
      std::memcmp(a.logits.data(), b.logits.data(), a.logits.size() * sizeof(float)) == 0;
  if (same_bits) return report;
  say("op by op");
  report.ops = load_and_compare_ops(input, a.generated);
  report.verdict = judge(report);
  return report;
}

}  // namespace baltoro
