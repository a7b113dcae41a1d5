// `baltoro compare`: two ways to compute one model, against each other.
#include "measure/compare.h"

#include <fmt/format.h>
#include <unistd.h>

#include <charconv>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "cli/arguments.h"
#include "cli/command.h"
#include "cli/format.h"
#include "cli/id_list.h"
#include "cli/model_options.h"
#include "core/error.h"

namespace baltoro::cli {
namespace {

using nlohmann::ordered_json;

struct CompareCommand {
  std::string dir;
  std::string first;
  std::string second;
  std::optional<std::string> ids;
  std::optional<std::string> file;
  std::optional<std::string> text;
  std::int64_t decode = 16;
  std::optional<float> latent_norm_eps;
  bool json = false;
};

void apply(EngineOptions& options, std::string_view key, std::string_view value,
           const std::string& side) {
  if (key == "isa" && !value.empty()) {
    options.isa = std::string(value);
  } else if (key == "activations" && (value == "bf16" || value == "f32")) {
    options.activations = value == "f32" ? Activations::kF32 : Activations::kBf16;
  } else if (key == "threads") {
    const auto [end, error] =
        std::from_chars(value.data(), value.data() + value.size(), options.num_threads);
    if (error != std::errc() || end != value.data() + value.size()) {
      fail(ErrorCode::kUsage, "\"{}\": threads is \"{}\"; it must be a number", side, value);
    }
  } else if (key == "deterministic" && (value == "on" || value == "off")) {
    options.deterministic = value == "on";
  } else {
    fail(ErrorCode::kUsage,
         "\"{}\": \"{}={}\" is not known; write DEVICE or DEVICE:KEY=VALUE,..., with device cpu, "
         "reference or cuda and keys isa, activations (bf16, f32), threads and deterministic (on, "
         "off)",
         side, key, value);
  }
}

// "cpu", "reference:activations=f32", "cpu:isa=avx2,threads=1"
EngineOptions parse_side(const std::string& side) {
  EngineOptions options;
  const std::size_t colon = side.find(':');
  options.device = side.substr(0, colon);
  std::string_view rest = side;
  rest.remove_prefix(colon == std::string::npos ? side.size() : colon + 1);
  while (!rest.empty()) {
    const std::string_view item = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(rest.size(), item.size() + 1));
    const std::size_t equals = std::min(item.find('='), item.size());
    apply(options, item.substr(0, equals), item.substr(std::min(equals + 1, item.size())), side);
  }
  return options;
}

std::vector<TokenId> read_ids(const CompareCommand& command) {
  const int sources = command.ids.has_value() + command.file.has_value() + command.text.has_value();
  if (sources != 1) fail(ErrorCode::kUsage, "give one of --ids, --file and --text");
  if (command.ids) return parse_ids(*command.ids, "--ids");
  const std::optional<Tokenizer> tokenizer = load_tokenizer(command.dir);
  if (!tokenizer) {
    fail(ErrorCode::kUsage, "{} has no tiktoken.model; give the input as --ids", command.dir);
  }
  return tokenizer->encode(command.text ? *command.text : read_text(*command.file));
}

std::string place(const OpDifference& d) {
  const std::string layer = d.layer >= 0 ? fmt::format("layer {}, ", d.layer) : std::string();
  return fmt::format("{}op {} ({})", layer, d.op, d.output);
}

std::string error_of(const OpDifference& d) {
  if (d.seen.non_finite_mismatches > 0) {
    return fmt::format("{} NaN or infinite values differ", d.seen.non_finite_mismatches);
  }
  return fmt::format("error {:.3g} of the largest value, tolerance {:.3g}", d.seen.max_rel,
                     d.limit.max_rel);
}

std::string headline(const CompareReport& report) {
  if (report.verdict != Verdict::kDiverged) return std::string(to_string(report.verdict));
  if (report.ops.first_exceeding) {
    return fmt::format("diverged at {}: {}", place(*report.ops.first_exceeding),
                       error_of(*report.ops.first_exceeding));
  }
  return fmt::format(
      "diverged at position {}: other tokens without a tie, though no op exceeds its "
      "tolerance on equal inputs",
      report.first_other_token);
}

void print(const CompareReport& report) {
  fmt::print("{}\n", headline(report));
  fmt::print("positions     {}, other tokens at {}, of them ties {}\n", report.num_positions,
             report.num_other_tokens, report.num_ties);
  fmt::print("logits        largest difference {:.3g}, normalised mean square error {:.3g}\n",
             report.max_abs, report.nmse);
  if (!report.ops.worst) return;
  fmt::print("nearest op    {}: {}\n", place(*report.ops.worst), error_of(*report.ops.worst));
  fmt::print("routing       {} of {} rows with other experts on equal inputs, of them ties {}\n",
             report.ops.route_flips.flipped, report.ops.route_flips.rows,
             report.ops.route_flips.ties);
}

ordered_json to_json(const std::optional<OpDifference>& difference) {
  if (!difference) return nullptr;
  const OpDifference& d = *difference;
  return {{"layer", d.layer},
          {"op", d.op},
          {"output", d.output},
          {"max_abs", d.seen.max_abs},
          {"max_rel", d.seen.max_rel},
          {"cosine", d.seen.cosine},
          {"non_finite_mismatches", d.seen.non_finite_mismatches},
          {"tolerance", d.limit.max_rel}};
}

ordered_json to_json(const CompareReport& report) {
  return {{"verdict", to_string(report.verdict)},
          {"positions", report.num_positions},
          {"other_tokens", report.num_other_tokens},
          {"ties", report.num_ties},
          {"first_other_token", report.first_other_token},
          {"max_abs", report.max_abs},
          {"nmse", report.nmse},
          {"first_exceeding", to_json(report.ops.first_exceeding)},
          {"nearest", to_json(report.ops.worst)},
          {"routed_rows", report.ops.route_flips.rows},
          {"route_flips", report.ops.route_flips.flipped},
          {"route_ties", report.ops.route_flips.ties}};
}

int run(const CompareCommand& command) {
  require_model_directory(command.dir, "compare");
  CompareInput input;
  input.dir = command.dir;
  input.first = parse_side(command.first);
  input.second = parse_side(command.second);
  input.first.latent_norm_eps = input.second.latent_norm_eps = command.latent_norm_eps;
  input.ids = read_ids(command);
  input.num_decode = command.decode;
  const bool tell = isatty(STDERR_FILENO) != 0;
  const CompareReport report = compare(input, [&](std::string_view stage) {
    if (tell) fmt::print(stderr, "{} ...\n", stage);
  });
  if (command.json) {
    print_json(to_json(report));
  } else {
    print(report);
  }
  return report.verdict == Verdict::kDiverged ? kFailed : kOk;
}

}  // namespace

Command add_compare(CLI::App& root) {
  auto command = std::make_shared<CompareCommand>();
  CLI::App* app =
      root.add_subcommand("compare", "Compare two backends, instruction sets or activation types");
  app->add_option("MODEL", command->dir, "Directory with config.json and safetensors")->required();
  app->add_option("A", command->first,
                  "cpu, reference, cuda, cpu:isa=avx2, cpu:activations=f32,threads=1")
      ->required();
  app->add_option("B", command->second, "The other one; ops see A's inputs on both")->required();
  add_text(*app, "--ids", command->ids, "Input as token ids, 1,2,3");
  add_text(*app, "--text", command->text, "Input as text");
  add_text(*app, "--file", command->file, "Input from a text file, - is standard input");
  add_number(*app, "--decode", command->decode, "Tokens to generate after the input");
  add_latent_norm_eps(*app, command->latent_norm_eps);
  app->add_flag("--json", command->json, "Print one JSON document");
  app->footer(
      "Examples:\n"
      "  baltoro compare models/story cpu reference --text \"Once upon a time\"\n"
      "  baltoro compare models/story cpu cuda --text \"Once upon a time\"\n"
      "  baltoro compare models/story cpu:isa=avx2 cpu:isa=scalar --ids 17,25,3\n"
      "  baltoro compare models/story cpu:activations=f32 cpu:activations=bf16 --file book.txt\n"
      "Says identical, agree, tie, or diverged and where; the exit status is 1 for diverged.");
  return {app, [command] { return run(*command); }};
}

}  // namespace baltoro::cli
