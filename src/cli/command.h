// The commands of the binary: each file adds one to the parser and returns what runs it.
#pragma once

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <functional>

namespace baltoro::cli {

struct Command {
  CLI::App* app = nullptr;
  // Returns the exit status; throws Error. Standard output belongs to the result.
  std::function<int()> run;
};

Command add_inspect(CLI::App& root);
Command add_synth(CLI::App& root);
Command add_quantize(CLI::App& root);
Command add_serve(CLI::App& root);
Command add_run(CLI::App& root);
Command add_chat(CLI::App& root);
Command add_tokenize(CLI::App& root);
Command add_compare(CLI::App& root);
Command add_score(CLI::App& root);
Command add_bench(CLI::App& root);
Command add_bench_ops(CLI::App& root);
Command add_plan(CLI::App& root);

// Exit statuses (include/baltoro/error.h maps the error codes).
constexpr int kOk = 0;
constexpr int kFailed = 1;
constexpr int kUsage = 2;
constexpr int kBadModel = 3;
constexpr int kDoesNotFit = 6;

}  // namespace baltoro::cli
