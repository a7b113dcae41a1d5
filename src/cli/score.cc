// `baltoro score`: the loss of a model on files.
#include <fmt/format.h>

#include <memory>
#include <string>
#include <vector>

#include "cli/command.h"
#include "cli/format.h"
#include "cli/model_options.h"
#include "cli/score_files.h"

namespace baltoro::cli {
namespace {

using nlohmann::ordered_json;

struct ScoreCommand {
  ModelOptions model;
  std::vector<std::string> files;
  ScoreInput input;
  bool json = false;
};

int run(const ScoreCommand& command) {
  const OpenModel model = open_model(command.model);
  const ProgressMode progress =
      command.model.progress ? ProgressMode::kAlways : ProgressMode::kAuto;
  std::vector<FileScore> files;
  FileScore total{.name = "total", .score = {}, .bytes = 0, .documents = 0};
  for (const std::string& path : command.files) {
    files.push_back(score_file(command.input, path, model, progress));
    total.score += files.back().score;
    total.bytes += files.back().bytes;
    total.documents += files.back().documents;
    if (!command.json) fmt::print("{}\n", score_line(files.back()));
  }
  if (command.json) {
    ordered_json list = ordered_json::array();
    for (const FileScore& file : files) list.push_back(to_json(file));
    print_json({{"files", list}, {"total", to_json(total)}});
  } else if (files.size() > 1) {
    fmt::print("{}\n", score_line(total));
  }
  return kOk;
}

}  // namespace

Command add_score(CLI::App& root) {
  auto command = std::make_shared<ScoreCommand>();
  CLI::App* app =
      root.add_subcommand("score", "Loss of a model on files: nats/token and bits/byte");
  add_model_options(*app, command->model);
  app->add_option("FILE", command->files, "Text or ids; - is standard input")->required();
  add_score_options(*app, command->input);
  app->add_flag("--json", command->json, "Print one JSON document");
  app->footer(
      "Examples:\n"
      "  baltoro score models/story book.txt\n"
      "  baltoro score models/story --format u16 --separator [EOS] held-out.u16 --json\n"
      "The first token of a document is not predicted; its bytes count in bits/byte.");
  return {app, [command] { return run(*command); }};
}

}  // namespace baltoro::cli
