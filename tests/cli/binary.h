// Runs the baltoro binary as a user would.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace baltoro::testing {

struct Outcome {
  int status = -1;  // exit status; 128 + n where signal n ended it
  std::string out;
  std::string err;
};

// Whether `part` stands in an output.
inline bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// Standard input is `input`. Not a terminal, so no progress bars and no colour.
Outcome run_baltoro(const std::vector<std::string>& arguments, const std::string& input = {});

// In the control group whose cgroup.procs is `procs`.
Outcome run_baltoro_in(const std::filesystem::path& procs,
                       const std::vector<std::string>& arguments);

// As the first, and sends SIGINT as often as `interrupts` says, each time once the output has grown.
Outcome interrupt_baltoro(const std::vector<std::string>& arguments, const std::string& input,
                          int interrupts);

void write_file(const std::filesystem::path& path, const std::string& content);
std::string read_file(const std::filesystem::path& path);

std::filesystem::path fixture(const std::string& name);

// A small checkpoint of random weights whose vocabulary is that of the committed test tokenizer, so
// that it takes and gives text. Made once a process, removed at its end.
const std::filesystem::path& text_model();

}  // namespace baltoro::testing
