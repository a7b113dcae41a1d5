#include "plan/workload.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "plan/key_value.h"

namespace baltoro::plan {
namespace {

constexpr std::array kPhases = {"decode", "prefill", "mixed", "verify"};
constexpr std::array kOverlaps = {"none", "shared", "tbo", "fused"};

}  // namespace

const char* phase_name(Phase phase) { return kPhases[static_cast<std::size_t>(phase)]; }

Phase parse_phase(std::string_view text) {
  for (std::size_t i = 0; i < kPhases.size(); ++i) {
    if (text == kPhases[i]) return static_cast<Phase>(i);
  }
  fail_unknown("--phase ", text, "phase", {kPhases.begin(), kPhases.end()});
}

Overlap parse_overlap(std::string_view text) {
  for (std::size_t i = 0; i < kOverlaps.size(); ++i) {
    if (text == kOverlaps[i]) return {static_cast<Overlap::Kind>(i), 0};
  }
  if (text.find_first_not_of("0123456789.") != std::string_view::npos) {
    std::vector<std::string> known(kOverlaps.begin(), kOverlaps.end());
    known.emplace_back("a number from 0 to 1");
    fail_unknown("--overlap ", text, "overlap", known);
  }
  return {Overlap::Kind::kFraction, parse_number("--overlap", text, 0, 1)};
}

std::string overlap_name(const Overlap& overlap) {
  if (overlap.kind == Overlap::Kind::kFraction) return fmt::format("{:g}", overlap.fraction);
  return kOverlaps[static_cast<std::size_t>(overlap.kind)];
}

std::int64_t parse_length(std::string_view name, std::string_view text, std::int64_t least) {
  constexpr std::int64_t kMost = std::int64_t{1} << 32;
  std::string_view digits = text;
  std::int64_t unit = 1;
  if (text.ends_with('k') || text.ends_with('K')) unit = 1024;
  if (text.ends_with('M')) unit = 1024 * 1024;
  if (unit > 1) digits.remove_suffix(1);
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error != std::errc() || end != digits.data() + digits.size()) {
    fail(ErrorCode::kUsage,
         "{} is \"{}\"; it must be a whole number from {} to {}, as 4096, 8k or 1M", name, text,
         least, kMost);
  }
  if (value < least || value > kMost / unit) {
    fail(ErrorCode::kUsage, "{} is {}; it must be {} {}", name, text,
         value < least ? "at least" : "at most", value < least ? least : kMost);
  }
  return unit * value;
}

void check_workload(const Workload& workload) {
  std::vector<std::string> problems;
  const auto at_least = [&](const char* name, std::int64_t value, std::int64_t least) {
    if (value < least) {
      problems.push_back(fmt::format("{} is {}; it must be at least {}", name, value, least));
    }
  };
  at_least("--batch", workload.batch, 1);
  at_least("--ctx", workload.context, 1);
  at_least("--isl", workload.input, 0);
  at_least("--osl", workload.output, 1);
  at_least("--prompts", workload.prompts, 1);
  at_least("--chunk", workload.chunk, 0);
  at_least("--cached", workload.cached, 0);
  at_least("--spec k", workload.draft, 0);
  if (workload.cached >= workload.prompt_tokens()) {
    problems.push_back(fmt::format("--cached {} leaves nothing of a prompt of {}; at most {}",
                                   workload.cached, workload.prompt_tokens(),
                                   workload.prompt_tokens() - 1));
  }
  const auto most = static_cast<double>(workload.draft + 1);
  if (workload.phase == Phase::kVerify && (workload.accepted < 1 || workload.accepted > most)) {
    problems.push_back(fmt::format("--spec accept {} of {} tokens; the rule is 1 to k + 1 = {}",
                                   workload.accepted, workload.draft, most));
  }
  if (workload.phase == Phase::kVerify && workload.draft >= workload.context) {
    problems.push_back(fmt::format("--spec k {} with a context of {}; the rule is k < --ctx",
                                   workload.draft, workload.context));
  }
  if (problems.empty()) return;
  fail(ErrorCode::kUsage, "{}", fmt::join(problems, "; "));
}

StepShape decode_step(std::int64_t sequences, std::int64_t context) {
  StepShape shape;
  shape.sequences = sequences;
  shape.context = context;
  return shape;
}

StepShape prefill_step(std::int64_t prompts, std::int64_t tokens, std::int64_t start) {
  StepShape shape;
  shape.prompts = prompts;
  shape.prompt_tokens = tokens;
  shape.prompt_start = start;
  return shape;
}

StepShape table_step(const Workload& workload) {
  const std::int64_t chunk = workload.chunk_tokens();
  const StepShape prefill = prefill_step(workload.prompts, chunk, workload.prompt_tokens() - chunk);
  StepShape decode = decode_step(workload.batch, workload.context);
  switch (workload.phase) {
    case Phase::kPrefill:
      return prefill;
    case Phase::kMixed:
      decode.prompts = prefill.prompts;
      decode.prompt_tokens = prefill.prompt_tokens;
      decode.prompt_start = prefill.prompt_start;
      return decode;
    case Phase::kVerify:
      decode.query_tokens = workload.draft + 1;
      return decode;
    case Phase::kDecode:
      break;
  }
  return decode;
}

}  // namespace baltoro::plan
