#include "measure/bench_gate.h"

#include "core/error.h"
#include "engine/make_backend.h"
#include "measure/random_tokens.h"
#include "model/config.h"
#include "model/model_stats.h"
#include "ops/batch.h"

namespace baltoro {
namespace {

// One block and a bit, so that chunks, their ends and rows beside a full tile are all there.
constexpr std::int64_t kPromptTokens = kBlockTokens + 3;
constexpr std::int64_t kDecodeTokens = 3;
constexpr double kReferenceFlops = 2e10;  // some 20 s

std::string text_of(const CompareReport& report, const CompareInput& input) {
  const std::string& other = input.second.isa ? "cpu/" + *input.second.isa : input.second.device;
  std::string text =
      fmt::format("{} prompt and {} generated tokens against {}: {}", input.ids.size(),
                  input.num_decode, other, to_string(report.verdict));
  if (const auto& fault = report.ops.first_exceeding) {
    text += fmt::format(" at layer {}, op {} ({}): error {:.3g}, tolerance {:.3g}", fault->layer,
                        fault->op, fault->output, fault->seen.max_rel, fault->limit.max_rel);
  } else if (report.verdict == Verdict::kDiverged) {
    text += fmt::format(" at position {}", report.first_other_token);
  }
  return text;
}

}  // namespace

GateReport check_model(const std::filesystem::path& dir, const EngineOptions& options,
                       const CompareFn& compare_fn) {
  if (options.device == "reference") {
    fail(ErrorCode::kUsage, "bench checks a device against the reference; choose another --device");
  }
  const ModelConfig config = load_config(dir, {options.latent_norm_eps});
  const double flops = 2 * static_cast<double>(compute_model_stats(config).active_parameters) *
                       (kPromptTokens + kDecodeTokens);
  CompareInput input;
  input.dir = dir;
  input.first = input.second = options;
  if (flops <= kReferenceFlops || make_backend(options)->name() == "cpu/scalar") {
    input.second.device = "reference";
    input.second.isa.reset();
  } else {
    input.second.isa = "scalar";
  }
  input.ids = random_tokens(config.vocab_size, kPromptTokens, 0);
  input.num_decode = kDecodeTokens;
  const CompareReport report = compare_fn(input);
  return {report.verdict != Verdict::kDiverged, text_of(report, input)};
}

}  // namespace baltoro
