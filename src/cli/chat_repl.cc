#include "cli/chat_repl.h"

#include <fmt/format.h>
#include <unistd.h>

#include <charconv>
#include <cstdio>
#include <utility>

#include "cli/builtin_tools.h"
#include "cli/chat_file.h"
#include "cli/command.h"
#include "cli/format.h"
#include "cli/terminal_input.h"
#include "core/error.h"
#include "text/json_value.h"
#include "text/utf8.h"

namespace baltoro::cli {

const char* const kChatCommands =
    "/history          list the turns with their numbers\n"
    "/edit [N] [TEXT]  replace the message of turn N, or of the last, and answer it anew; what "
    "came\n"
    "                  after it is dropped. Without TEXT, the turn is shown and the next line is "
    "it\n"
    "/retry            answer the last turn anew, with another seed\n"
    "/undo             drop the last turn\n"
    "/save FILE        write the conversation as JSON, whose \"messages\" can be sent to a server\n"
    "/load FILE        go on with a conversation that was saved\n"
    "/reset            forget the conversation\n"
    "/system [TEXT]    start anew with this system message; without TEXT, with none\n"
    "/tools            declare calculator and clock, or take them back\n"
    "/think            turn the thinking channel on or off\n"
    "/help             this list\n"
    "/quit             leave; so does the end of input\n"
    "A line that ends in \\ goes on. Ctrl-C stops an answer.\n";

namespace {

// Rounds of tool calls before the model must answer.
constexpr int kMaxToolRounds = 8;
// Of a message in /history.
constexpr std::size_t kShownBytes = 72;

Message text_message(const char* role, const std::string& text) {
  Message message;
  message.role = role;
  message.content = {text};
  return message;
}

std::string text_of(const Message& message) {
  std::string text;
  for (const std::string& part : message.content) text += part;
  return text;
}

// On one line, and no longer than the screen is wide.
std::string shortened(std::string text) {
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < 0x20) c = ' ';
  }
  if (text.size() <= kShownBytes) return text;
  text.resize(kShownBytes);
  text.resize(valid_utf8_prefix(text));
  return text + "...";
}

const char* shown_role(const Message& message) {
  if (message.role == "user") return "you";
  return message.role == "assistant" ? "model" : message.role.c_str();
}

// Whether the built-in tools are the ones that a file declares, or a part of them. Throws
// Error{kUsage} for others.
bool declares_builtin_tools(const std::string& tools) {
  if (tools.empty()) return false;
  const JsonValue root = parse_json(tools, "tools");
  for (std::size_t i = 0; i < root.items.size(); ++i) {
    const JsonValue* function = root.items[i].find("function");
    const JsonValue* name = function == nullptr ? nullptr : function->find("name");
    const std::string word = name == nullptr ? std::string() : name->text;
    if (word == "calculator" || word == "clock") continue;
    fail(ErrorCode::kUsage,
         "tools[{}].function.name: \"{}\" is no tool that can be run here; they are calculator and "
         "clock",
         i, word);
  }
  return true;
}

}  // namespace

struct ChatRepl::Command {
  const char* name;
  void (*run)(ChatRepl& repl, const std::string& argument);
};

const ChatRepl::Command ChatRepl::kCommands[] = {
    {"/reset",
     [](ChatRepl& repl, const std::string&) {
       repl.reset();
       fmt::print(stderr, "The conversation starts anew.\n");
     }},
    {"/system", [](ChatRepl& repl, const std::string& text) { repl.set_system(text); }},
    {"/tools", [](ChatRepl& repl, const std::string&) { repl.toggle_tools(); }},
    {"/think", [](ChatRepl& repl, const std::string&) { repl.toggle_thinking(); }},
    {"/history", [](ChatRepl& repl, const std::string&) { repl.history(); }},
    {"/edit", [](ChatRepl& repl, const std::string& argument) { repl.edit(argument); }},
    {"/retry", [](ChatRepl& repl, const std::string&) { repl.retry(); }},
    {"/undo", [](ChatRepl& repl, const std::string&) { repl.undo(); }},
    {"/save", [](ChatRepl& repl, const std::string& file) { repl.save(file); }},
    {"/load", [](ChatRepl& repl, const std::string& file) { repl.load(file); }},
};

ChatRepl::ChatRepl(ReplOptions options, std::unique_ptr<ChatPartner> partner)
    : options_(std::move(options)),
      partner_(std::move(partner)),
      interactive_(isatty(STDIN_FILENO) != 0) {
  reset();
}

int ChatRepl::run() {
  catch_interrupts();
  if (interactive_) fmt::print(stderr, "Type a message, /help for commands, Ctrl-D to leave.\n");
  while (const std::optional<std::string> line = prompt("> ")) {
    if (line->empty()) continue;
    if ((*line)[0] != '/') {
      talk(*line);
    } else if (!command(*line)) {
      break;
    }
  }
  if (interactive_) fmt::print("\n");
  return failed_ && !interactive_ ? kFailed : kOk;
}

std::optional<std::string> ChatRepl::prompt(const char* mark) const {
  if (interactive_) {
    fmt::print("{}", mark);
    std::fflush(stdout);
  }
  return read_message();
}

bool ChatRepl::command(const std::string& line) {
  const std::string name = line.substr(0, line.find(' '));
  const std::size_t begin = line.find_first_not_of(' ', name.size());
  const std::string argument = begin == std::string::npos ? std::string() : line.substr(begin);
  if (name == "/quit" || name == "/exit") return false;
  for (const Command& known : kCommands) {
    if (name != known.name) continue;
    try {
      known.run(*this, argument);
    } catch (const Error& error) {
      report(error.what());
    }
    return true;
  }
  if (name != "/help") fmt::print(stderr, "Unknown command {}.\n", name);
  fmt::print(stderr, "{}", kChatCommands);
  return true;
}

void ChatRepl::reset() {
  conversation_.messages.clear();
  if (!options_.system.empty()) {
    conversation_.messages.push_back(text_message("system", options_.system));
  }
  apply_switches();
}

void ChatRepl::set_system(const std::string& text) {
  options_.system = text;
  reset();
  fmt::print(stderr, "The conversation starts anew{}.\n",
             text.empty() ? " without a system message" : " with this system message");
}

void ChatRepl::toggle_tools() {
  options_.tools = !options_.tools;
  apply_switches();
  fmt::print(stderr, "Tools are {}.\n", options_.tools ? "on: calculator, clock" : "off");
}

void ChatRepl::toggle_thinking() {
  options_.thinking = !options_.thinking;
  apply_switches();
  fmt::print(stderr, "Thinking is {}.\n", options_.thinking ? "on" : "off");
}

void ChatRepl::apply_switches() {
  conversation_.tools = options_.tools ? std::string(builtin_tools()) : std::string();
  conversation_.thinking.reset();
  if (partner_->has_thinking()) conversation_.thinking = options_.thinking;
  if (!options_.effort.empty()) conversation_.thinking_effort = options_.effort;
}

void ChatRepl::history() const {
  if (conversation_.messages.empty()) fmt::print(stderr, "Nothing has been said yet.\n");
  std::size_t turn = 0;
  for (const Message& message : conversation_.messages) {
    const bool begins = message.role == "user";
    const std::string number = begins ? fmt::format("{}", ++turn) : std::string();
    std::string text = text_of(message);
    for (const ToolCall& call : message.tool_calls) {
      text += fmt::format("{}[calls {} {}]", text.empty() ? "" : " ", call.name, call.arguments);
    }
    fmt::print(stderr, "{:>3} {:<7} {}\n", number, shown_role(message), shortened(text));
  }
}

std::vector<std::size_t> ChatRepl::turns() const {
  std::vector<std::size_t> places;
  for (std::size_t i = 0; i < conversation_.messages.size(); ++i) {
    if (conversation_.messages[i].role == "user") places.push_back(i);
  }
  return places;
}

std::optional<std::size_t> ChatRepl::find_turn(const std::string& number) const {
  const std::vector<std::size_t> places = turns();
  std::size_t n = places.size();
  if (!number.empty()) std::from_chars(number.data(), number.data() + number.size(), n);
  if (n >= 1 && n <= places.size()) return places[n - 1];
  if (places.empty()) {
    fmt::print(stderr, "There is no turn yet.\n");
  } else {
    fmt::print(stderr, "There is no turn {}; they are 1 to {} (/history).\n", n, places.size());
  }
  return std::nullopt;
}

void ChatRepl::edit(const std::string& argument) {
  const std::size_t digits = std::min(argument.find_first_not_of("0123456789"), argument.size());
  const bool numbered = digits > 0 && (digits == argument.size() || argument[digits] == ' ');
  const std::string number = numbered ? argument.substr(0, digits) : std::string();
  std::string text = argument.substr(number.size());
  text.erase(0, text.find_first_not_of(' '));
  const std::optional<std::size_t> place = find_turn(number);
  if (!place) return;
  if (text.empty()) {
    fmt::print(stderr, "{}\n", text_of(conversation_.messages[*place]));
    text = prompt("edit> ").value_or("");
  }
  if (text.empty()) {
    fmt::print(stderr, "The turn stays as it is.\n");
    return;
  }
  std::vector<Message> before = conversation_.messages;
  conversation_.messages.resize(*place + 1);
  conversation_.messages[*place].content = {text};
  respond(std::move(before), options_.seed);
}

void ChatRepl::retry() {
  const std::optional<std::size_t> place = find_turn({});
  if (!place) return;
  std::vector<Message> before = conversation_.messages;
  conversation_.messages.resize(*place + 1);
  respond(std::move(before), options_.seed + ++retries_);
}

void ChatRepl::undo() {
  const std::optional<std::size_t> place = find_turn({});
  if (!place) return;
  fmt::print(stderr, "Dropped: {}\n", shortened(text_of(conversation_.messages[*place])));
  conversation_.messages.resize(*place);
}

void ChatRepl::save(const std::string& file) {
  if (file.empty()) fail(ErrorCode::kUsage, "/save needs the name of a file");
  save_conversation(conversation_, file);
  fmt::print(stderr, "Saved {} to {}.\n", counted(conversation_.messages.size(), "message"), file);
}

void ChatRepl::load(const std::string& file) {
  if (file.empty()) fail(ErrorCode::kUsage, "/load needs the name of a file");
  Conversation loaded = load_conversation(file);
  ReplOptions switches = options_;
  try {
    if (!loaded.tools.empty()) switches.tools = declares_builtin_tools(loaded.tools);
    if (loaded.thinking) switches.thinking = *loaded.thinking;
    Conversation asked;
    asked.messages = loaded.messages;
    partner_->check(asked);
  } catch (const Error& error) {
    fail(error.code(), "{}: {}", file, error.what());
  }
  const bool has_system = !loaded.messages.empty() && loaded.messages.front().role == "system";
  switches.system = has_system ? text_of(loaded.messages.front()) : std::string();
  options_ = std::move(switches);
  conversation_.messages = std::move(loaded.messages);
  apply_switches();
  const auto& messages = conversation_.messages;
  const bool open = !messages.empty() && messages.back().role != "assistant";
  fmt::print(stderr, "Loaded {} from {}{}.\n", counted(messages.size(), "message"), file,
             open && !turns().empty() ? "; /retry answers the last one" : "");
}

void ChatRepl::talk(const std::string& text) {
  std::vector<Message> before = conversation_.messages;
  conversation_.messages.push_back(text_message("user", text));
  respond(std::move(before), options_.seed);
}

void ChatRepl::respond(std::vector<Message> before, std::uint64_t seed) {
  try {
    for (int round = 1; answer_once(seed); ++round) {
      if (round < kMaxToolRounds) continue;
      fmt::print(stderr, "(stopped after {} rounds of tool calls)\n", kMaxToolRounds);
      break;
    }
  } catch (const Error& error) {
    conversation_.messages = std::move(before);
    report(error.what());
  }
}

void ChatRepl::report(const std::string& error) {
  failed_ = true;
  if (options_.json) fmt::print("{}\n", json_line({{"error", error}}));
  std::fflush(stdout);
  fmt::print(stderr, "baltoro: error: {}\n", error);
}

bool ChatRepl::answer_once(std::uint64_t seed) {
  clear_interrupt();
  AnswerPrinter printer(options_.color);
  ChatAnswer answer;
  try {
    answer = partner_->answer(
        conversation_, seed,
        [&](const ChatDelta& delta) {
          if (!options_.json) printer(delta);
        },
        [] { return interrupted(); });
  } catch (const Error&) {
    printer.end();
    throw;
  }
  printer.end();
  conversation_.messages.push_back(to_message(answer.result));
  if (options_.json) print_answer(answer);
  if (options_.stats) fmt::print(stderr, "{}", partner_->describe(answer));
  if (answer.cancelled) {
    fmt::print(stderr, "(stopped)\n");
    return false;
  }
  if (!options_.tools || answer.result.tool_calls.empty()) return false;
  for (const ToolCall& call : answer.result.tool_calls) {
    const std::string result = run_builtin_tool(call);
    if (!options_.json) printer.tool_result(result);
    Message message = text_message("tool", result);
    message.tool_call_id = call.id;
    message.tool = call.name;
    conversation_.messages.push_back(std::move(message));
  }
  return true;
}

void ChatRepl::print_answer(const ChatAnswer& answer) const {
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

}  // namespace baltoro::cli
