// The report of a benchmark: a table on standard output while it runs, and one JSON document.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "cli/bench_options.h"
#include "io/output_file.h"
#include "measure/bench_row.h"
#include "measure/explain_step.h"
#include "measure/machine.h"
#include "measure/roof.h"

namespace baltoro::cli {

class BenchReport {
 public:
  // `suite` is "model" or "ops". Prints the machine. Throws Error{kIo} where the file of --json
  // cannot be written, before an hour of measuring is lost.
  BenchReport(std::string suite, const BenchOptions& options, const MachineInfo& machine);

  // A line above the table, also part of the document: "model", "gate".
  void note(const std::string& key, const std::string& text);
  // More about `key` for the document alone.
  void detail(const std::string& key, nlohmann::ordered_json value);
  // The roofs of one and of `threads` threads, once for each count.
  void roofs(Roof& roof, int threads);
  // Prints the row; where it has no result, why, on standard error.
  void row(const BenchRow& row);

  // Prints the parts of a step, or why it has no result.
  void explanation(const StepExplanation& step);

  // Writes the document where --json asks for it. Returns the exit status: kFailed where a row has
  // no result. Throws Error{kIo}.
  int finish();
  const nlohmann::ordered_json& document() const { return document_; }

 private:
  std::optional<OutputFile> file_;
  nlohmann::ordered_json document_;
  bool model_;
  bool header_printed_ = false;
  bool failed_ = false;
};

}  // namespace baltoro::cli
