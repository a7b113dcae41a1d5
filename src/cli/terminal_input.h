// What the user of `baltoro chat` types, and Ctrl-C.
#pragma once

#include <optional>
#include <string>

namespace baltoro::cli {

// From here on Ctrl-C ends no program: it ends a half-typed line, and interrupted() is true.
void catch_interrupts();
// Whether Ctrl-C came since the last message was read, or since clear_interrupt().
bool interrupted();
void clear_interrupt();

// The next line of standard input, and more where it ends in a backslash; bytes that are no UTF-8
// become U+FFFD. Nothing at the end of input; empty after Ctrl-C.
std::optional<std::string> read_message();

}  // namespace baltoro::cli
