// The binary: parses the command line, runs one command, maps failures to exit statuses.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <new>
#include <string>
#include <vector>

#include "baltoro/error.h"
#include "baltoro/version.h"
#include "cli/command.h"
#include "core/suggest.h"
#include "io/mapping_fault.h"

namespace baltoro::cli {
namespace {

int exit_status(ErrorCode code) {
  switch (code) {
    case ErrorCode::kUsage:
      return kUsage;
    case ErrorCode::kBadModel:
      return kBadModel;
    case ErrorCode::kOutOfMemory:
      return 4;
    case ErrorCode::kDevice:
    case ErrorCode::kUnsupported:
      return 5;
    case ErrorCode::kDoesNotFit:
      return kDoesNotFit;
    case ErrorCode::kIo:
    case ErrorCode::kNonFinite:
    case ErrorCode::kInternal:
      return kFailed;
  }
  return kFailed;
}

int report(int status, std::string_view message) {
  std::fflush(stdout);
  fmt::print(stderr, "baltoro: error: {}\n", message);
  return status;
}

std::vector<std::string> option_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
    for (const std::string& name : option->get_snames()) names.push_back("-" + name);
  }
  return names;
}

std::string did_you_mean(std::string_view word, const std::vector<std::string>& candidates) {
  const std::string best = nearest(word, candidates);
  return best.empty() ? std::string() : fmt::format("; did you mean {}?", best);
}

// The command that was given, or its subcommand; the program where there is none.
const CLI::App& innermost(const CLI::App& app) {
  const auto chosen = app.get_subcommands();
  return chosen.empty() ? app : innermost(*chosen.front());
}

// "baltoro plan sweep".
std::string command_name(const CLI::App& app) {
  const CLI::App* parent = app.get_parent();
  return parent == nullptr ? app.get_name() : command_name(*parent) + " " + app.get_name();
}

// What the parser could not place, as one message; empty where there is nothing.
std::string describe_leftovers(const CLI::App& root) {
  const CLI::App& app = innermost(root);
  const bool chosen = &app != &root;
  const std::string help = command_name(app) + " --help";
  std::string first_word;
  for (const std::string& word : root.remaining(true)) {
    if (word.size() > 1 && word[0] == '-') {
      const std::string name = word.substr(0, word.find('='));
      return fmt::format("unknown option {}{} (see {})", name,
                         did_you_mean(name, option_names(app)), help);
    }
    if (first_word.empty()) first_word = word;
  }
  if (first_word.empty()) return {};
  if (chosen) {
    return fmt::format("unexpected argument \"{}\"; quote a text that holds spaces (see {})",
                       first_word, help);
  }
  std::vector<std::string> names;
  for (const CLI::App* command : root.get_subcommands([](const CLI::App*) { return true; })) {
    names.push_back(command->get_name());
  }
  return fmt::format("unknown command \"{}\"{} (see {})", first_word,
                     did_you_mean(first_word, names), help);
}

// An option that is given twice, or whose value is missing.
std::string describe_mismatch(const CLI::App& root, const CLI::ArgumentMismatch& error) {
  const std::string message = error.what();
  const std::string name = message.substr(0, message.find(':'));
  const CLI::App& app = innermost(root);
  const CLI::Option* option = app.get_option_no_throw(name);
  if (option == nullptr) return message;
  if (option->count() > 1) {
    const std::string times =
        option->count() == 2 ? "twice" : fmt::format("{} times", option->count());
    return fmt::format("{} is given {}; keep one", name, times);
  }
  const bool is_number =
      option->get_type_name().ends_with("INT") || option->get_type_name() == "FLOAT";
  return fmt::format("{} needs a {} behind it", name, is_number ? "number" : "value");
}

int run(int argc, char** argv) {
  CLI::App app(
      "A native engine for the Kimi K3 model family (Kimi Linear, Kimi K3).\n"
      "Every command has --help with examples.",
      "baltoro");
  app.set_version_flag("--version", std::string("baltoro ") + version());
  app.allow_extras();
  const std::vector<Command> commands = {add_run(app),     add_chat(app),     add_serve(app),
                                         add_inspect(app), add_tokenize(app), add_compare(app),
                                         add_score(app),   add_bench(app),    add_bench_ops(app),
                                         add_plan(app),    add_synth(app),    add_quantize(app)};
  for (const Command& command : commands) command.app->allow_extras();
  try {
    app.parse(argc, argv);
  } catch (const CLI::ArgumentMismatch& error) {
    return report(kUsage, describe_mismatch(app, error));
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);  // --help, --version
    const std::string leftovers = describe_leftovers(app);
    return report(kUsage, leftovers.empty() ? error.what() : leftovers);
  }
  const std::string leftovers = describe_leftovers(app);
  if (!leftovers.empty()) return report(kUsage, leftovers);

  for (const Command& command : commands) {
    if (!command.app->parsed()) continue;
    const int status = command.run();
    // An earlier flush may have failed already.
    const bool written = std::fflush(stdout) == 0 && std::ferror(stdout) == 0;
    if (!written) return report(kFailed, "standard output cannot be written");
    return status;
  }
  fmt::print(stderr, "{}", app.help());
  return kUsage;
}

}  // namespace
}  // namespace baltoro::cli

int main(int argc, char** argv) {
  using namespace baltoro;
  report_mapping_faults();
  try {
    return cli::run(argc, argv);
  } catch (const Error& error) {
    return cli::report(cli::exit_status(error.code()), error.what());
  } catch (const std::bad_alloc&) {
    return cli::report(cli::exit_status(ErrorCode::kOutOfMemory), "out of memory");
  } catch (const std::exception& error) {
    return cli::report(cli::kFailed, error.what());
  }
}
