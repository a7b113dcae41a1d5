// `baltoro quantize`: a copy of a checkpoint with smaller weights.
#include "model/quantize.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "cli/arguments.h"
#include "cli/command.h"
#include "cli/format.h"
#include "cli/progress.h"
#include "cli/quantize_report.h"
#include "cli/score_files.h"
#include "core/error.h"

namespace baltoro::cli {
namespace {

using nlohmann::ordered_json;

struct QuantizeCommand {
  std::string src;
  std::string dst;
  std::string experts = "mxfp4";
  std::string trunk = "keep";
  std::vector<std::string> score;
  ScoreInput input;
  int threads = 0;
  bool dry_run = false;
  bool progress = false;
  bool json = false;

  ProgressMode progress_mode() const {
    return progress ? ProgressMode::kAlways : ProgressMode::kAuto;
  }
};

// The losses of the model in `dir` on the --score files, printed as they come.
ordered_json score(const QuantizeCommand& command, const std::string& dir, const char* when) {
  ModelOptions options;
  options.command = "quantize";
  options.dir = dir;
  options.threads = command.threads;
  options.progress = command.progress;
  const OpenModel model = open_model(options);
  ordered_json list = ordered_json::array();
  for (const std::string& path : command.score) {
    const FileScore file = score_file(command.input, path, model, command.progress_mode());
    list.push_back(to_json(file));
    if (!command.json) fmt::print("{:<13} {}\n", when, score_line(file));
    std::fflush(stdout);
  }
  return list;
}

int run(const QuantizeCommand& command) {
  if (std::find(command.score.begin(), command.score.end(), "-") != command.score.end()) {
    fail(ErrorCode::kUsage, "--score reads each file twice, which standard input cannot give");
  }
  QuantizeTargets targets;
  targets.mxfp4_experts = command.experts == "mxfp4";
  targets.mxint8_trunk = command.trunk == "int8";
  Quantizer quantizer(command.src, command.dst, targets);
  ordered_json document = {{"source", command.src}, {"directory", command.dst}};
  document["plan"] = plan_json(quantizer);
  if (!command.json) print_plan(quantizer, command.src, command.dst);
  std::fflush(stdout);
  quantizer.check_space();
  if (!command.dry_run) {
    if (!command.score.empty()) document["before"] = score(command, command.src, "before");
    QuantizeReport report;
    {
      ProgressBar bar("Quantising", command.progress_mode());
      report = quantizer.run(command.threads, [&bar](std::uint64_t done, std::uint64_t total) {
        bar.update(done, total);
      });
    }
    if (!command.json) print_report(quantizer.plan(), report);
    document.update(report_json(report));
    if (!command.score.empty()) document["after"] = score(command, command.dst, "after");
  }
  if (command.json) print_json(document);
  return kOk;
}

}  // namespace

Command add_quantize(CLI::App& root) {
  auto command = std::make_shared<QuantizeCommand>();
  CLI::App* app = root.add_subcommand("quantize", "Copy a checkpoint with smaller weights");
  app->add_option("SRC", command->src, "Model directory with BF16, F16 or F32 weights")->required();
  app->add_option("DST", command->dst, "Directory to write; empty, or that of a run to go on with")
      ->required();
  add_choice(*app, "--experts", command->experts, {"mxfp4", "keep"},
             "Routed experts: 4-bit floats in the packing of Kimi K3, 4.25 bits a weight");
  add_choice(
      *app, "--trunk", command->trunk, {"int8", "keep"},
      "Large matrices of mixers, shared and dense FFNs and head: MXINT8, 8.25 bits a weight");
  app->add_option("--score", command->score,
                  "Files whose loss is measured before and after; read as in baltoro score")
      ->expected(1, 1000);
  add_score_options(*app, command->input);
  add_number(*app, "--threads", command->threads,
             "0 is all physical cores within the container's limit", {.min = 0, .max = 1024});
  app->add_flag("--dry-run", command->dry_run, "Print the plan, write nothing");
  app->add_flag("--progress", command->progress,
                "Show the progress bar though stderr is no terminal");
  app->add_flag("--json", command->json, "Print one JSON document, with the errors of each matrix");
  app->footer(
      "Examples:\n"
      "  baltoro quantize Kimi-Linear-48B-A3B-Instruct kimi-linear-mxfp4\n"
      "  baltoro quantize Kimi-Linear-48B-A3B-Instruct kimi-linear-small --trunk int8 --dry-run\n"
      "  baltoro quantize models/story story-int8 --experts keep --trunk int8 --score book.txt\n"
      "Tensors that are packed already are copied byte for byte. A run that was killed goes on "
      "where\n"
      "it stopped when it is called again. docs/quantize.md says what stays in BF16 and why.");
  return {app, [command] { return run(*command); }};
}

}  // namespace baltoro::cli
