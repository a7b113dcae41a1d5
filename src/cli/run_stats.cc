#include "cli/run_stats.h"

#include <fmt/format.h>

#include "cli/format.h"
#include "cli/memory_report.h"
#include "cli/sampling_options.h"
#include "io/memory.h"
#include "measure/memory_bandwidth.h"

namespace baltoro::cli {
namespace {

struct Derived {
  double prefill_rate = 0;     // tokens a second
  double decode_rate = 0;      // tokens a second
  double bytes_per_token = 0;  // read and written by one decode step at the mean position
  double achieved = 0;         // bytes a second
  double machine = 0;          // bytes a second
  double paged_per_token = 0;  // bytes brought into memory for one decode step
};

// Within the memory limit the measurement has its own buffer, or is left out.
bool has_room_to_measure(const MemoryPlan& plan) {
  constexpr std::uint64_t kBytes = std::uint64_t{512} << 20;
  return resident_memory_bytes() + kBytes <= plan.limit;
}

Derived derive(const RunStats& stats, const Engine& engine) {
  Derived out;
  const EngineInfo& info = engine.info();
  if (stats.prefill_seconds > 0) {
    out.prefill_rate = static_cast<double>(stats.prompt_tokens) / stats.prefill_seconds;
  }
  // The first token comes from the prompt's logits.
  const auto steps = static_cast<double>(stats.generated_tokens - 1);
  if (steps > 0 && stats.decode_seconds > 0) out.decode_rate = steps / stats.decode_seconds;
  const double mean_position = static_cast<double>(stats.first_position) + steps / 2;
  out.bytes_per_token = static_cast<double>(info.decode_weight_bytes) +
                        2.0 * static_cast<double>(info.state_bytes) +
                        mean_position * static_cast<double>(info.cache_bytes_per_token);
  if (steps > 0) out.paged_per_token = static_cast<double>(stats.decode_paged_bytes) / steps;
  out.achieved = out.bytes_per_token * out.decode_rate;
  // Of a GPU's memory nothing is known here.
  if (info.memory.device_limit == 0 && has_room_to_measure(info.memory)) {
    out.machine = measure_read_bandwidth({}, info.num_threads);
  }
  return out;
}

}  // namespace

std::string describe(const RunStats& stats, const Engine& engine, const GenerateOptions& options) {
  const EngineInfo& info = engine.info();
  const Derived d = derive(stats, engine);
  std::string out = fmt::format(
      "backend   {}, {} threads; loaded {} in {:.2f} s\n", info.backend, info.num_threads,
      human_bytes(static_cast<std::uint64_t>(info.weight_bytes)), stats.load_seconds);
  out += fmt::format("sampling  {}\n", describe(options));
  out += fmt::format("prefill   {} tokens in {:.3f} s, {:.1f} tokens/s\n", stats.prompt_tokens,
                     stats.prefill_seconds, d.prefill_rate);
  out += fmt::format("decode    {} tokens in {:.3f} s, {:.1f} tokens/s\n", stats.generated_tokens,
                     stats.decode_seconds, d.decode_rate);
  out += fmt::format("memory    {} bytes/token, {:.2f} GB/s",
                     with_commas(static_cast<std::uint64_t>(d.bytes_per_token)), d.achieved / 1e9);
  if (d.machine > 0) {
    out += fmt::format(", {:.0f} % of the {:.2f} GB/s measured here", 100 * d.achieved / d.machine,
                       d.machine / 1e9);
  } else if (info.memory.device_limit == 0) {
    out += "; the limit leaves no room to measure the machine";
  }
  out += "\n" + describe(info.load, info.memory, 10);
  out += describe(info.memory, info.decode_weight_bytes, 10);
  if (!info.memory.all_resident()) {
    out += fmt::format("read      {} bytes/token, {:.2f} GB/s\n",
                       with_commas(static_cast<std::uint64_t>(d.paged_per_token)),
                       d.paged_per_token * d.decode_rate / 1e9);
  }
  return out;
}

nlohmann::ordered_json to_json(const RunStats& stats, const Engine& engine,
                               const GenerateOptions& options) {
  const Derived d = derive(stats, engine);
  return {{"backend", engine.info().backend},
          {"threads", engine.info().num_threads},
          {"load_seconds", stats.load_seconds},
          {"sampling", to_json(options)},
          {"prefill_tokens", stats.prompt_tokens},
          {"prefill_tokens_per_second", d.prefill_rate},
          {"decode_tokens", stats.generated_tokens},
          {"decode_tokens_per_second", d.decode_rate},
          {"bytes_per_token", d.bytes_per_token},
          {"bytes_per_second", d.achieved},
          {"machine_bytes_per_second", d.machine},
          {"bandwidth_share", d.machine == 0 ? 0 : d.achieved / d.machine},
          {"paged_bytes_per_token", d.paged_per_token},
          {"load", to_json(engine.info().load, engine.info().memory)},
          {"memory", to_json(engine.info().memory)}};
}

}  // namespace baltoro::cli
