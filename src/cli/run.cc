// `baltoro run`: continues a prompt, or answers the requests of a file.
#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>

#include "cli/arguments.h"
#include "cli/command.h"
#include "cli/format.h"
#include "cli/id_list.h"
#include "cli/model_options.h"
#include "cli/requests.h"
#include "cli/run_stats.h"
#include "cli/sampling_options.h"
#include "core/error.h"
#include "core/stopwatch.h"

namespace baltoro::cli {
namespace {

using nlohmann::ordered_json;

constexpr std::int64_t kRunMaxTokens = 256;

struct RunOptions {
  ModelOptions model;
  SamplingOptions sampling;
  std::optional<std::string> prompt;
  std::optional<std::string> file;
  std::optional<std::string> ids;
  std::optional<std::string> requests;
  bool control = false;
  bool stats = false;
  bool json = false;
};

struct Prompt {
  std::vector<TokenId> ids;
  bool as_ids = false;  // given as ids, so the answer is printed as ids
};

Prompt read_prompt(const RunOptions& options, const OpenModel& model) {
  if (options.ids) return {parse_ids(*options.ids, "--ids"), true};
  const bool from_stdin = !options.prompt && !options.file;
  if (from_stdin && isatty(STDIN_FILENO) != 0) {
    fail(ErrorCode::kUsage, "no prompt: give PROMPT, --file, --ids or text on standard input");
  }
  const std::string text = options.prompt ? *options.prompt : read_text(options.file.value_or("-"));
  const Tokenizer& tokenizer = model.require_tokenizer("a text prompt");
  return {options.control ? tokenizer.encode_control(text) : tokenizer.encode(text), false};
}

ordered_json logprobs_json(const Choice& choice, const Tokenizer* tokenizer) {
  const auto entry = [&](TokenId token, float logprob) {
    ordered_json row = {{"token", token}, {"logprob", logprob}};
    if (tokenizer != nullptr) row["text"] = std::string(tokenizer->token_bytes(token));
    return row;
  };
  ordered_json chosen = entry(choice.token, choice.logprob);
  chosen["top"] = ordered_json::array();
  for (const TokenLogprob& other : choice.top)
    chosen["top"].push_back(entry(other.token, other.logprob));
  return chosen;
}

// Prints tokens as they come, unless a JSON document follows.
class Printer {
 public:
  Printer(const RunOptions& options, bool as_ids, const Tokenizer* tokenizer)
      : options_(options), as_ids_(as_ids), tokenizer_(tokenizer) {}

  void operator()(const GeneratedToken& token) {
    if (options_.sampling.logprobs > 0) add_logprobs(token);
    if (options_.json) return;
    if (as_ids_) {
      fmt::print("{}{}", token.index > 0 ? "," : "", token.choice.token);
    } else {
      fmt::print("{}", token.text);
    }
    std::fflush(stdout);
  }
  const ordered_json& logprobs() const { return logprobs_; }

 private:
  void add_logprobs(const GeneratedToken& token) {
    ordered_json chosen = logprobs_json(token.choice, tokenizer_);
    if (options_.json) {
      logprobs_.push_back(std::move(chosen));
    } else {
      fmt::print(stderr, "{}\n", json_line(chosen));
    }
  }

  const RunOptions& options_;
  bool as_ids_;
  const Tokenizer* tokenizer_;
  ordered_json logprobs_ = ordered_json::array();
};

std::string_view finish_reason(StopReason reason) {
  return reason == StopReason::kMaxTokens ? "length" : "stop";
}

int run_prompt(const RunOptions& options, const OpenModel& model) {
  const Prompt prompt = read_prompt(options, model);
  if (prompt.ids.empty()) {
    fail(ErrorCode::kUsage, "the prompt is empty; give at least one token");
  }
  const Tokenizer* tokenizer = model.tokenizer ? &*model.tokenizer : nullptr;
  GenerateOptions generate_options =
      resolve(options.sampling, model.engine->info().generation, kRunMaxTokens);
  if (tokenizer != nullptr) {
    generate_options.banned = unusable_ids(*tokenizer, model.engine->info().vocab_size);
  }

  RunStats stats;
  stats.load_seconds = model.load_seconds;
  Session session = model.engine->new_session();
  Stopwatch watch;
  session.prefill(prompt.ids);
  stats.prompt_tokens = static_cast<std::int64_t>(prompt.ids.size());
  stats.first_position = session.position();
  stats.prefill_seconds = watch.lap();
  const std::uint64_t paged_before = model.engine->paged_bytes();

  Printer printer(options, prompt.as_ids, tokenizer);
  const Generation result =
      generate(session, tokenizer, generate_options, [&](const GeneratedToken& token) {
        printer(token);
        return true;
      });
  stats.generated_tokens = static_cast<std::int64_t>(result.ids.size());
  stats.decode_seconds = watch.lap();
  stats.decode_paged_bytes = static_cast<std::int64_t>(model.engine->paged_bytes() - paged_before);

  if (!options.json) {
    fmt::print("\n");
    std::fflush(stdout);
    if (options.stats) fmt::print(stderr, "{}", describe(stats, *model.engine, generate_options));
    return kOk;
  }
  ordered_json document = {{"text", result.text},
                           {"ids", result.ids},
                           {"finish_reason", finish_reason(result.reason)},
                           {"prompt_tokens", stats.prompt_tokens},
                           {"completion_tokens", stats.generated_tokens}};
  if (options.sampling.logprobs > 0) document["logprobs"] = printer.logprobs();
  if (options.stats) document["stats"] = to_json(stats, *model.engine, generate_options);
  print_json(document);
  return kOk;
}

void check_combination(const RunOptions& options) {
  const int sources =
      options.prompt.has_value() + options.file.has_value() + options.ids.has_value();
  const bool requests = options.requests.has_value();
  if (requests && sources > 0) {
    fail(ErrorCode::kUsage, "--jsonl has the prompts in its file; give no other prompt");
  }
  if (sources > 1) {
    fail(ErrorCode::kUsage, "give one of PROMPT, --file and --ids, not {}", sources);
  }
  refuse_together(options.control, "--control", requests, "--jsonl");
  refuse_together(options.stats, "--stats", requests, "--jsonl");
  refuse_together(options.sampling.logprobs > 0, "--logprobs", requests, "--jsonl");
  refuse_together(options.control, "--control", options.ids.has_value(), "--ids");
}

int run(const RunOptions& options) {
  check_combination(options);
  ModelOptions how = options.model;
  how.show_plan = options.stats;
  const OpenModel model = open_model(how);
  if (!options.requests) return run_prompt(options, model);
  return answer_requests(model, options.model.dir, *options.requests, options.sampling);
}

}  // namespace

Command add_run(CLI::App& root) {
  auto options = std::make_shared<RunOptions>();
  CLI::App* app = root.add_subcommand("run", "Continue a prompt, or answer a file of requests");
  add_model_options(*app, options->model);
  add_text(*app, "PROMPT", options->prompt, "Text to continue; default: standard input");
  add_text(*app, "--file", options->file, "Read the prompt from a file, - is standard input");
  add_text(*app, "--ids", options->ids, "Token ids as prompt, 1,2,3; the answer is ids, too");
  app->add_flag("--control", options->control,
                "Special strings in the prompt become their ids, such as [EOS]");
  add_text(*app, "--jsonl", options->requests,
           "Answer the requests of a file, one JSON object a line; greedy unless told otherwise");
  app->add_flag("--stats", options->stats, "Speed, bytes and what sampling applied, on stderr");
  app->add_flag("--json", options->json, "Print one JSON document instead of text");
  add_sampling_options(*app, options->sampling);
  app->footer(
      "Examples:\n"
      "  baltoro run models/story \"Once upon a time\"\n"
      "  baltoro run models/story \"The sea\" -n 100 --temperature 0.8 --seed 7 --stats\n"
      "  echo \"It was a dark night\" | baltoro run models/story --stop \".\"\n"
      "  baltoro run models/story --ids 17,25,3 -n 8 --temperature 0 --logprobs 3\n"
      "  baltoro run models/story --jsonl requests.jsonl > answers.jsonl\n"
      "  baltoro run Kimi-Linear-48B \"The sea\" --memory 40GB --stats\n"
      "A request is {\"prompt\": TEXT} or {\"messages\": [...]}, with the optional keys id,\n"
      "max_tokens, temperature, top_k, top_p, min_p, seed and stop, and for messages also tools,\n"
      "thinking, thinking_effort, tool_choice, parallel_tool_calls, response_format and\n"
      "add_generation_prompt; docs/structured_output.md says what answers are held to.");
  return {app, [options] { return run(*options); }};
}

}  // namespace baltoro::cli
