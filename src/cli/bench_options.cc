#include "cli/bench_options.h"

#include "cli/arguments.h"

namespace baltoro::cli {

void add_bench_options(CLI::App& app, BenchOptions& options) {
  add_numbers(app, "-t,--threads", options.threads,
              "Thread counts; 0 is all physical cores within the container's limit",
              {.min = 0, .max = 1024});
  add_number(app, "-r,--repeats", options.repeat.repeats,
             "Samples of a row; each lasts half a second or one run", {.min = 1, .max = 1000});
  add_number(app, "--max-dropped", options.repeat.max_dropped,
             "Give a row up when other processes disturbed more samples than this", {.min = 0});
  app.add_flag("--allow-noise", options.repeat.allow_noise, "Keep disturbed samples, marked noisy");
  add_text(app, "--json", options.json,
           "Also write a file: machine, roofs, and every sample (see scripts/compare_bench.py)");
}

}  // namespace baltoro::cli
