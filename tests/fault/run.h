// The work that faults are put into: loading a model and running it.
#pragma once

#include <filesystem>
#include <iterator>
#include <string>
#include <vector>

#include "baltoro/session.h"
#include "paths.h"

namespace baltoro::testing {

inline std::filesystem::path fixture(const std::string& name) {
  return test_data_dir() / "fixtures" / name;
}

inline EngineOptions small_engine(LoadMode load = LoadMode::kCopy, int threads = 1) {
  return {.num_threads = threads, .load = load, .max_batch_rows = 64};
}

// Logits after a prompt over one page and a half, a fork, and a generated token.
inline std::vector<float> run(Engine& engine) {
  std::vector<TokenId> prompt(70);
  for (std::size_t i = 0; i < prompt.size(); ++i) prompt[i] = static_cast<TokenId>(i * 37 % 90);
  Session session = engine.new_session();
  session.prefill(prompt);
  Session fork = session.fork();
  fork.decode(3);
  return {fork.logits().begin(), fork.logits().end()};
}

// Of this process.
inline std::ptrdiff_t open_files() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/fd"),
                       std::filesystem::directory_iterator());
}

}  // namespace baltoro::testing
