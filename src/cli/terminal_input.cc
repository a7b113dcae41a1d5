#include "cli/terminal_input.h"

#include <fmt/format.h>
#include <signal.h>

#include <csignal>
#include <cstdio>
#include <iostream>
#include <utility>

#include "text/utf8.h"

namespace baltoro::cli {
namespace {

volatile std::sig_atomic_t g_interrupted = 0;

void on_interrupt(int) { g_interrupted = 1; }

std::string valid_text(std::string bytes) {
  std::string text = take_complete_utf8(bytes, InvalidUtf8::kReplace);
  // What is left is the beginning of a character that never came.
  return bytes.empty() ? text : text + "\xEF\xBF\xBD";
}

}  // namespace

// Without SA_RESTART, so that Ctrl-C also ends a half-typed line.
void catch_interrupts() {
  struct sigaction action = {};
  action.sa_handler = on_interrupt;
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, nullptr);
}

bool interrupted() { return g_interrupted != 0; }

void clear_interrupt() { g_interrupted = 0; }

std::optional<std::string> read_message() {
  std::string message, line;
  clear_interrupt();
  while (std::getline(std::cin, line)) {
    if (line.empty() || line.back() != '\\') return valid_text(message + line);
    line.back() = '\n';
    message += line;
  }
  if (!interrupted()) {
    return message.empty() ? std::nullopt : std::optional(valid_text(std::move(message)));
  }
  std::cin.clear();
  std::clearerr(stdin);
  fmt::print("\n");
  return std::string();
}

}  // namespace baltoro::cli
