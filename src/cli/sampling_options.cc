#include "cli/sampling_options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/arguments.h"
#include "cli/format.h"

namespace baltoro::cli {

void add_sampling_options(CLI::App& app, SamplingOptions& options) {
  const char* const group = "Sampling";
  add_number(app, "-n,--max-tokens", options.max_tokens,
             "Tokens to generate at most; default: the model's")
      ->group(group);
  add_number(app, "--temperature", options.temperature, "0 is greedy")->group(group);
  add_number(app, "--top-k", options.top_k, "Keep the K most likely tokens; 0 is off")
      ->group(group);
  add_number(app, "--top-p", options.top_p, "Keep the smallest set with this probability; 1 is off")
      ->group(group);
  add_number(app, "--min-p", options.min_p,
             "Drop tokens below this share of the largest probability; 0 is off")
      ->group(group);
  add_number(app, "--seed", options.seed, "The same seed gives the same text")->group(group);
  app.add_option("--stop", options.stop, "Text that ends the answer; may be repeated")
      ->group(group)
      ->allow_extra_args(false);
  add_number(app, "--logprobs", options.logprobs, "Report this many likely tokens at each step")
      ->group(group);
  app.add_flag("--ignore-stop-ids", options.ignore_stop_ids,
               "Go on after the model's end-of-text tokens")
      ->group(group);
}

GenerateOptions resolve(const SamplingOptions& options, const GenerationDefaults& defaults,
                        std::int64_t default_max_tokens) {
  GenerateOptions out;
  out.sampling = default_sampling(defaults);
  SamplingParams& sampling = out.sampling;
  sampling.temperature = options.temperature.value_or(sampling.temperature);
  sampling.top_k = options.top_k.value_or(sampling.top_k);
  sampling.top_p = options.top_p.value_or(sampling.top_p);
  sampling.min_p = options.min_p.value_or(sampling.min_p);
  sampling.seed = options.seed;
  sampling.num_logprobs = options.logprobs;
  out.max_tokens =
      options.max_tokens.value_or(defaults.max_new_tokens.value_or(default_max_tokens));
  if (!options.ignore_stop_ids) out.stop_ids = defaults.stop_ids;
  out.stop_strings = options.stop;
  return out;
}

std::string describe(const GenerateOptions& options) {
  const SamplingParams& s = options.sampling;
  std::string text =
      s.temperature == 0
          ? std::string("greedy")
          : fmt::format("temperature {:g}, top-k {}, top-p {:g}, min-p {:g}, seed {}",
                        s.temperature, s.top_k, s.top_p, s.min_p, s.seed);
  text += fmt::format(", at most {} tokens, stop ids [{}]", options.max_tokens,
                      fmt::join(options.stop_ids, ", "));
  return text;
}

nlohmann::ordered_json to_json(const GenerateOptions& options) {
  const SamplingParams& s = options.sampling;
  return {{"temperature", shortest(s.temperature)},
          {"top_k", s.top_k},
          {"top_p", shortest(s.top_p)},
          {"min_p", shortest(s.min_p)},
          {"seed", s.seed},
          {"max_tokens", options.max_tokens},
          {"stop_ids", options.stop_ids},
          {"stop", options.stop_strings}};
}

}  // namespace baltoro::cli
