// `baltoro synth`: a checkpoint of random weights for any configuration.
#include "model/synth.h"

#include <fmt/format.h>

#include <memory>
#include <string>

#include "cli/arguments.h"
#include "cli/command.h"
#include "cli/format.h"
#include "cli/progress.h"

namespace baltoro::cli {
namespace {

struct SynthCommand {
  std::string config;
  std::string out;
  std::uint64_t seed = 1;
  int shards = 1;
  bool progress = false;
  bool json = false;
};

int run(const SynthCommand& command) {
  SynthReport report;
  {
    ProgressBar bar("Writing weights",
                    command.progress ? ProgressMode::kAlways : ProgressMode::kAuto);
    SynthOptions options;
    options.seed = command.seed;
    options.num_shards = command.shards;
    options.progress = [&](std::uint64_t done, std::uint64_t total) { bar.update(done, total); };
    report = synthesize(command.config, command.out, options);
  }
  if (command.json) {
    print_json({{"dir", command.out},
                {"tensors", report.num_tensors},
                {"bytes", report.bytes},
                {"tokenizer", report.has_tokenizer}});
  } else {
    fmt::print("{}: {}, {} B{}\n", command.out,
               counted(static_cast<std::uint64_t>(report.num_tensors), "tensor"),
               with_commas(report.bytes),
               report.has_tokenizer ? ", with a tokenizer"
                                    : "; the vocabulary is too small for a tokenizer");
  }
  return kOk;
}

}  // namespace

Command add_synth(CLI::App& root) {
  auto command = std::make_shared<SynthCommand>();
  CLI::App* app = root.add_subcommand("synth", "Write a checkpoint of random weights");
  app->add_option("CONFIG", command->config, "config.json of any variant, or a directory with one")
      ->required();
  app->add_option("OUT_DIR", command->out, "Directory to write; made where it is missing")
      ->required();
  add_number(*app, "--seed", command->seed, "The same seed gives the same bytes");
  add_number(*app, "--shards", command->shards, "Number of safetensors files", {.min = 1});
  app->add_flag("--progress", command->progress,
                "Show the progress bar though stderr is no terminal");
  app->add_flag("--json", command->json, "Print one JSON document");
  app->footer(
      "Examples:\n"
      "  baltoro synth config.json random-model --seed 7\n"
      "  baltoro synth models/story random-model --shards 4");
  return {app, [command] { return run(*command); }};
}

}  // namespace baltoro::cli
