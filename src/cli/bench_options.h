// Options that the two benchmark commands share.
#pragma once

#include <CLI/App.hpp>
#include <optional>
#include <string>
#include <vector>

#include "measure/repeat.h"

namespace baltoro::cli {

struct BenchOptions {
  std::vector<int> threads = {0};
  RepeatOptions repeat;
  std::optional<std::string> json;  // file
};

void add_bench_options(CLI::App& app, BenchOptions& options);

}  // namespace baltoro::cli
