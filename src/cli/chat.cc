// `baltoro chat`: a conversation on the terminal.
#include <fmt/format.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cli/arguments.h"
#include "cli/chat_repl.h"
#include "cli/chat_server.h"
#include "cli/chat_session.h"
#include "cli/command.h"
#include "cli/format.h"
#include "cli/model_options.h"
#include "cli/sampling_options.h"
#include "core/error.h"
#include "serve/api_keys.h"

namespace baltoro::cli {
namespace {

constexpr std::int64_t kChatMaxTokens = 1024;

struct ChatOptions {
  ModelOptions model;
  std::vector<std::string> model_flags;  // that a server has no use for
  SamplingOptions sampling;
  ReplOptions repl;
  std::string server;
  std::string api_key_file;
  bool no_thinking = false;
  std::string color = "auto";
};

std::unique_ptr<ChatPartner> open_server(const CLI::App& app, const ChatOptions& options) {
  for (const std::string& flag : options.model_flags) {
    refuse_together(app.count(flag) > 0, flag.c_str(), true, "--server");
  }
  ChatServerOptions server = {.url = parse_server_url("--server", options.server),
                              .key = {},
                              .sampling = options.sampling,
                              .effort = options.repl.effort};
  if (!options.api_key_file.empty()) {
    serve::ApiKeys keys;
    keys.add_lines(read_text(options.api_key_file), options.api_key_file);
    server.key = keys.first();
  }
  auto partner = std::make_unique<ChatServer>(std::move(server));
  if (isatty(STDIN_FILENO) != 0) {
    fmt::print(stderr, "The model is {}, at {}.\n", partner->model(), options.server);
  }
  return partner;
}

std::unique_ptr<ChatPartner> open_session(const ChatOptions& options) {
  if (options.model.dir.empty()) {
    fail(ErrorCode::kUsage,
         "no model: give MODEL, the directory of a checkpoint, or --server URL (see baltoro chat "
         "--help)");
  }
  refuse_together(!options.api_key_file.empty(), "--api-key-file", true, "MODEL");
  OpenModel model = open_model(options.model);
  ChatFormat format = ChatFormat::load(model.require_tokenizer("chat"), options.model.dir);
  GenerateOptions generate =
      resolve(options.sampling, model.engine->info().generation, kChatMaxTokens);
  return std::make_unique<ChatSession>(std::move(model), std::move(format), std::move(generate));
}

int run(const CLI::App& app, const ChatOptions& options) {
  refuse_together(options.sampling.logprobs > 0, "--logprobs", true, "chat");
  ReplOptions repl = options.repl;
  repl.seed = options.sampling.seed;
  repl.thinking = !options.no_thinking;
  repl.color = options.color == "always" || (options.color == "auto" && isatty(STDOUT_FILENO) != 0);
  return ChatRepl(std::move(repl),
                  options.server.empty() ? open_session(options) : open_server(app, options))
      .run();
}

}  // namespace

Command add_chat(CLI::App& root) {
  auto options = std::make_shared<ChatOptions>();
  CLI::App* app = root.add_subcommand("chat", "Talk with a model, or with a server");
  add_model_options(*app, options->model);
  for (const CLI::Option* option : app->get_options()) {
    const std::string name = option->get_name();
    if (name != "--help" && name != "-h,--help") options->model_flags.push_back(name);
  }
  app->get_option("MODEL")->required(false);
  app->add_option("--server", options->server,
                  "Talk with the server at this URL, such as http://127.0.0.1:8080")
      ->check(not_empty);
  app->add_option("--api-key-file", options->api_key_file,
                  "With --server: file whose first line is the key");
  app->add_option("--system", options->repl.system, "System message");
  app->add_flag("--tools", options->repl.tools, "Declare the built-in tools calculator and clock");
  app->add_flag("--no-thinking", options->no_thinking, "Answer without the thinking channel");
  add_choice(*app, "--thinking-effort", options->repl.effort, {"low", "high", "max"},
             "How much to think; default: max");
  add_choice(*app, "--color", options->color, {"auto", "always", "never"}, "Dim the thinking");
  app->add_flag("--stats", options->repl.stats, "Speed of each answer, on stderr");
  app->add_flag("--json", options->repl.json, "Print each answer as one line of JSON");
  add_sampling_options(*app, options->sampling);
  app->footer(std::string("Examples:\n"
                          "  baltoro chat models/story\n"
                          "  baltoro chat models/story --tools --temperature 0\n"
                          "  baltoro chat --server http://127.0.0.1:8080 --tools\n"
                          "  echo \"What is 12 * 34?\" | baltoro chat models/story --tools --json\n"
                          "Commands in the conversation:\n") +
              kChatCommands);
  return {app, [options, app] { return run(*app, *options); }};
}

}  // namespace baltoro::cli
