// `baltoro chat`: a conversation on the terminal.
#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <iostream>
#include <memory>
#include <optional>
#include <string>

#include "cli/arguments.h"
#include "cli/builtin_tools.h"
#include "cli/chat_session.h"
#include "cli/command.h"
#include "cli/format.h"
#include "cli/model_options.h"
#include "cli/sampling_options.h"
#include "core/error.h"

namespace baltoro::cli {
namespace {

constexpr std::int64_t kChatMaxTokens = 1024;
// Rounds of tool calls before the model must answer.
constexpr int kMaxToolRounds = 8;

constexpr const char* kHelp =
    "/reset          forget the conversation\n"
    "/system TEXT    start anew with this system message; without TEXT, with none\n"
    "/tools          declare calculator and clock, or take them back\n"
    "/think          turn the thinking channel on or off\n"
    "/help           this list\n"
    "/quit           leave; so does the end of input\n"
    "A line that ends in \\ goes on. Ctrl-C stops an answer.\n";

struct ChatOptions {
  ModelOptions model;
  SamplingOptions sampling;
  std::string system;
  std::string effort;
  bool tools = false;
  bool no_thinking = false;
  bool stats = false;
  bool json = false;
  std::string color = "auto";
};

volatile std::sig_atomic_t g_interrupted = 0;

void on_interrupt(int) { g_interrupted = 1; }

// Without SA_RESTART, so that Ctrl-C also ends a half-typed line.
void catch_interrupts() {
  struct sigaction action = {};
  action.sa_handler = on_interrupt;
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, nullptr);
}

// Prints the channels of an answer one after the other, the thinking dimmed.
class AnswerPrinter {
 public:
  explicit AnswerPrinter(bool color) : color_(color) {}

  void operator()(const ChatDelta& delta) {
    switch (delta.kind) {
      case ChatDelta::Kind::kReasoning:
        show(Style::kDim, delta.text);
        break;
      case ChatDelta::Kind::kContent:
        show(Style::kPlain, delta.text);
        break;
      case ChatDelta::Kind::kToolCallStart:
        show(Style::kCall, delta.name + " ");
        break;
      case ChatDelta::Kind::kToolCallArguments:
        show(Style::kCall, delta.text);
        break;
      case ChatDelta::Kind::kToolCallEnd:
        end();
        break;
    }
    std::fflush(stdout);
  }

  void tool_result(const std::string& text) {
    show(Style::kCall, "-> " + text);
    end();
  }

  // Ends the line.
  void end() {
    if (style_ == Style::kNone) return;
    fmt::print("{}\n", color_ && style_ != Style::kPlain ? "\x1b[0m" : "");
    style_ = Style::kNone;
  }

 private:
  enum class Style { kNone, kDim, kPlain, kCall };

  void show(Style style, const std::string& text) {
    if (text.empty()) return;
    if (style != style_) {
      end();
      style_ = style;
      if (color_ && style == Style::kDim) fmt::print("\x1b[2m");
      if (color_ && style == Style::kCall) fmt::print("\x1b[36m");
      if (style == Style::kCall) fmt::print("[tool] ");
    }
    fmt::print("{}", text);
  }

  bool color_;
  Style style_ = Style::kNone;
};

Message text_message(const char* role, const std::string& text) {
  Message message;
  message.role = role;
  message.content = {text};
  return message;
}

class Repl {
 public:
  Repl(const ChatOptions& options, OpenModel model)
      : options_(options),
        model_(std::move(model)),
        tokenizer_(model_.require_tokenizer("chat")),
        generate_options_(
            resolve(options.sampling, model_.engine->info().generation, kChatMaxTokens)),
        format_(ChatFormat::load(tokenizer_, options.model.dir)),
        color_(options.color == "always" ||
               (options.color == "auto" && isatty(STDOUT_FILENO) != 0)),
        system_(options.system),
        tools_(options.tools),
        thinking_(!options.no_thinking) {
    generate_options_.banned = unusable_ids(tokenizer_, model_.engine->info().vocab_size);
    reset();
  }

  int run() {
    catch_interrupts();
    const bool interactive = isatty(STDIN_FILENO) != 0;
    if (interactive) fmt::print(stderr, "Type a message, /help for commands, Ctrl-D to leave.\n");
    for (;;) {
      if (interactive) {
        fmt::print("> ");
        std::fflush(stdout);
      }
      const std::optional<std::string> line = read_message();
      if (!line) break;
      if (line->empty()) continue;
      if ((*line)[0] == '/') {
        if (!command(*line)) break;
      } else {
        talk(*line);
      }
    }
    if (interactive) fmt::print("\n");
    return failed_ && !interactive ? kFailed : kOk;
  }

 private:
  void reset() {
    session_.emplace(*model_.engine, tokenizer_, format_, generate_options_);
    Conversation& conversation = session_->conversation();
    if (!system_.empty()) {
      conversation.messages.push_back(text_message("system", system_));
    }
    apply_switches();
  }

  void apply_switches() {
    Conversation& conversation = session_->conversation();
    conversation.tools = tools_ ? std::string(builtin_tools()) : std::string();
    if (format_.kind() != ChatFormat::Kind::kK2Instruct) conversation.thinking = thinking_;
    if (!options_.effort.empty()) conversation.thinking_effort = options_.effort;
  }

  // A message, continued lines joined; nothing at the end of input; empty after Ctrl-C.
  static std::optional<std::string> read_message() {
    std::string message, line;
    g_interrupted = 0;
    while (std::getline(std::cin, line)) {
      if (line.empty() || line.back() != '\\') return message + line;
      line.back() = '\n';
      message += line;
    }
    if (g_interrupted == 0) return message.empty() ? std::nullopt : std::optional(message);
    std::cin.clear();
    std::clearerr(stdin);
    fmt::print("\n");
    return std::string();
  }

  // False to leave.
  bool command(const std::string& line) {
    const std::string name = line.substr(0, line.find(' '));
    const std::size_t begin = line.find_first_not_of(' ', name.size());
    const std::string argument = begin == std::string::npos ? std::string() : line.substr(begin);
    if (name == "/quit" || name == "/exit") return false;
    if (name == "/reset") {
      reset();
      fmt::print(stderr, "The conversation starts anew.\n");
    } else if (name == "/system") {
      system_ = argument;
      reset();
      fmt::print(stderr, "The conversation starts anew{}.\n",
                 argument.empty() ? " without a system message" : " with this system message");
    } else if (name == "/tools") {
      tools_ = !tools_;
      apply_switches();
      fmt::print(stderr, "Tools are {}.\n", tools_ ? "on: calculator, clock" : "off");
    } else if (name == "/think") {
      thinking_ = !thinking_;
      apply_switches();
      fmt::print(stderr, "Thinking is {}.\n", thinking_ ? "on" : "off");
    } else {
      if (name != "/help") fmt::print(stderr, "Unknown command {}.\n", name);
      fmt::print(stderr, "{}", kHelp);
    }
    return true;
  }

  void talk(const std::string& text) {
    auto& messages = session_->conversation().messages;
    const std::size_t before = messages.size();
    messages.push_back(text_message("user", text));
    try {
      for (int round = 1; answer_once(); ++round) {
        if (round < kMaxToolRounds) continue;
        fmt::print(stderr, "(stopped after {} rounds of tool calls)\n", kMaxToolRounds);
        break;
      }
    } catch (const Error& error) {
      // The session may be unusable; the conversation goes on without this turn.
      auto kept = messages;
      kept.resize(before);
      reset();
      session_->conversation().messages = std::move(kept);
      failed_ = true;
      if (options_.json) fmt::print("{}\n", json_line({{"error", error.what()}}));
      std::fflush(stdout);
      fmt::print(stderr, "baltoro: error: {}\n", error.what());
    }
  }

  // True where tools were called and answered, so that the model must speak again.
  bool answer_once() {
    g_interrupted = 0;
    AnswerPrinter printer(color_);
    const ChatAnswer answer = session_->answer(
        [&](const ChatDelta& delta) {
          if (!options_.json) printer(delta);
        },
        [] { return g_interrupted != 0; });
    printer.end();
    if (options_.json) print_answer(answer);
    if (options_.stats) {
      fmt::print(stderr, "{}", describe(answer.stats, *model_.engine, generate_options_));
    }
    if (answer.cancelled) {
      fmt::print(stderr, "(stopped)\n");
      return false;
    }
    if (!tools_ || answer.result.tool_calls.empty()) return false;
    for (const ToolCall& call : answer.result.tool_calls) {
      const std::string result = run_builtin_tool(call);
      if (!options_.json) printer.tool_result(result);
      Message message = text_message("tool", result);
      message.tool_call_id = call.id;
      message.tool = call.name;
      session_->conversation().messages.push_back(std::move(message));
    }
    return true;
  }

  static void print_answer(const ChatAnswer& answer) {
    nlohmann::ordered_json calls = nlohmann::ordered_json::array();
    for (const ToolCall& call : answer.result.tool_calls) {
      calls.push_back({{"name", call.name}, {"arguments", call.arguments}});
    }
    fmt::print("{}\n", json_line({{"text", answer.result.content},
                                  {"reasoning", answer.result.reasoning},
                                  {"tool_calls", calls},
                                  {"finish_reason", to_string(answer.result.finish_reason)},
                                  {"prompt_tokens", answer.stats.prompt_tokens},
                                  {"completion_tokens", answer.stats.generated_tokens}}));
    std::fflush(stdout);
  }

  const ChatOptions& options_;
  OpenModel model_;
  const Tokenizer& tokenizer_;
  GenerateOptions generate_options_;
  ChatFormat format_;
  bool color_;
  std::string system_;
  bool tools_;
  bool thinking_;
  bool failed_ = false;  // some turn
  std::optional<ChatSession> session_;
};

int run(const ChatOptions& options) {
  refuse_together(options.sampling.logprobs > 0, "--logprobs", true, "chat");
  return Repl(options, open_model(options.model)).run();
}

}  // namespace

Command add_chat(CLI::App& root) {
  auto options = std::make_shared<ChatOptions>();
  CLI::App* app = root.add_subcommand("chat", "Talk with a model");
  add_model_options(*app, options->model);
  app->add_option("--system", options->system, "System message");
  app->add_flag("--tools", options->tools, "Declare the built-in tools calculator and clock");
  app->add_flag("--no-thinking", options->no_thinking, "Answer without the thinking channel");
  add_choice(*app, "--thinking-effort", options->effort, {"low", "high", "max"},
             "How much to think; default: max");
  add_choice(*app, "--color", options->color, {"auto", "always", "never"}, "Dim the thinking");
  app->add_flag("--stats", options->stats, "Speed of each answer, on stderr");
  app->add_flag("--json", options->json, "Print each answer as one line of JSON");
  add_sampling_options(*app, options->sampling);
  app->footer(std::string("Examples:\n"
                          "  baltoro chat models/story\n"
                          "  baltoro chat models/story --tools --temperature 0\n"
                          "  echo \"What is 12 * 34?\" | baltoro chat models/story --tools --json\n"
                          "Commands in the conversation:\n") +
              kHelp);
  return {app, [options] { return run(*options); }};
}

}  // namespace baltoro::cli
