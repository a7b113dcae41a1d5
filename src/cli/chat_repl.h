// The screen of `baltoro chat`: reads messages and commands line by line, shows answers, and keeps
// the conversation.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/answer_printer.h"
#include "cli/chat_partner.h"

namespace baltoro::cli {

struct ReplOptions {
  std::string system;
  std::string effort;  // empty: the partner's
  std::uint64_t seed = 0;
  bool tools = false;
  bool thinking = true;
  bool stats = false;
  bool json = false;  // an answer is one line of JSON
  bool color = false;
};

// What /help prints.
extern const char* const kChatCommands;

class ChatRepl {
 public:
  ChatRepl(ReplOptions options, std::unique_ptr<ChatPartner> partner);

  // Until the end of standard input, or /quit. Returns the exit status.
  int run();

 private:
  struct Command;
  static const Command kCommands[];

  // False to leave.
  bool command(const std::string& line);
  void reset();
  void set_system(const std::string& text);
  void toggle_tools();
  void toggle_thinking();
  void history() const;
  void edit(const std::string& argument);
  void retry();
  void undo();
  void save(const std::string& file);
  void load(const std::string& file);

  void apply_switches();
  // The places of the user's messages.
  std::vector<std::size_t> turns() const;
  // The place of a turn by its number from 1 on, the last one where there is no number; nothing, and
  // said why, where there is no such turn.
  std::optional<std::size_t> find_turn(const std::string& number) const;
  void talk(const std::string& text);
  // Answers the conversation, which goes back to `before` where that fails.
  void respond(std::vector<Message> before, std::uint64_t seed);
  // True where tools were called and answered, so that the model must speak again.
  bool answer_once(std::uint64_t seed);
  void print_answer(const ChatAnswer& answer) const;
  void report(const std::string& error);
  std::optional<std::string> prompt(const char* mark) const;

  ReplOptions options_;
  std::unique_ptr<ChatPartner> partner_;
  Conversation conversation_;
  bool interactive_;
  bool failed_ = false;        // some turn or command
  std::uint64_t retries_ = 0;  // so that another answer is another
};

}  // namespace baltoro::cli
