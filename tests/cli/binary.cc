#include "cli/binary.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <thread>

#include "e2e/checkpoint.h"
#include "paths.h"

extern char** environ;

namespace baltoro::testing {

namespace fs = std::filesystem;

namespace {

class Child {
 public:
  // `words`: the program's path, then its arguments.
  Child(std::vector<std::string> words, const std::string& input) {
    write_file(dir_.path() / "in", input);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    open_as(&actions, 0, "in", O_RDONLY);
    open_as(&actions, 1, "out", O_WRONLY | O_CREAT | O_TRUNC);
    open_as(&actions, 2, "err", O_WRONLY | O_CREAT | O_TRUNC);
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    const int error =
        ::posix_spawn(&pid_, words[0].c_str(), &actions, nullptr, argv.data(), environ);
    posix_spawn_file_actions_destroy(&actions);
    if (error != 0) throw std::runtime_error("cannot start " + words[0]);
  }

  void interrupt() const { ::kill(pid_, SIGINT); }
  std::string out() const { return read_file(dir_.path() / "out"); }

  Outcome wait() {
    int status = 0;
    ::waitpid(pid_, &status, 0);
    const int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    return {code, out(), read_file(dir_.path() / "err")};
  }

 private:
  void open_as(posix_spawn_file_actions_t* actions, int fd, const char* name, int flags) {
    posix_spawn_file_actions_addopen(actions, fd, (dir_.path() / name).c_str(), flags, 0600);
  }

  TempDir dir_;
  pid_t pid_ = -1;
};

std::vector<std::string> joined(std::vector<std::string> words,
                                const std::vector<std::string>& arguments) {
  words.insert(words.end(), arguments.begin(), arguments.end());
  return words;
}

// The K3 fixture's configuration with the test tokenizer's vocabulary.
std::string text_config(int vocab_size) {
  nlohmann::json config = read_json(fixture("k3") / "config.json");
  config["text_config"]["vocab_size"] = vocab_size;
  return config.dump();
}

}  // namespace

Outcome run_baltoro(const std::vector<std::string>& arguments, const std::string& input) {
  return Child(joined({BALTORO_BINARY}, arguments), input).wait();
}

Outcome run_baltoro_in(const fs::path& procs, const std::vector<std::string>& arguments) {
  const std::string join_group = "echo $$ > \"$0\" && exec \"$@\"";
  return Child(joined({"/bin/sh", "-c", join_group, procs.string(), BALTORO_BINARY}, arguments), {})
      .wait();
}

Outcome interrupt_baltoro(const std::vector<std::string>& arguments, const std::string& input,
                          int interrupts) {
  Child child(joined({BALTORO_BINARY}, arguments), input);
  std::size_t seen = 0;
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (interrupts > 0 && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    if (child.out().size() <= seen) continue;
    child.interrupt();
    --interrupts;
    seen = child.out().size();
  }
  return child.wait();
}

void write_file(const fs::path& path, const std::string& content) {
  std::ofstream(path, std::ios::binary) << content;
}

std::string read_file(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

fs::path fixture(const std::string& name) { return test_data_dir() / "fixtures" / name; }

const fs::path& text_model() {
  static const TempDir parent;
  static const fs::path dir = [] {
    const fs::path data = test_data_dir() / "tokenizer";
    const fs::path made = parent.path() / "model";
    write_file(parent.path() / "config.json", text_config(4096));
    const Outcome outcome = run_baltoro(
        {"synth", (parent.path() / "config.json").string(), made.string(), "--seed", "5"});
    if (outcome.status != 0) throw std::runtime_error("baltoro synth: " + outcome.err);
    for (const char* name : {"tiktoken.model", "tokenizer_config.json"}) {
      fs::copy_file(data / name, made / name, fs::copy_options::overwrite_existing);
    }
    return made;
  }();
  return dir;
}

}  // namespace baltoro::testing
