#include "cli/bench_report.h"

#include <fmt/format.h>

#include <cstdio>
#include <limits>
#include <span>

#include "cli/command.h"
#include "cli/format.h"
#include "cli/table.h"
#include "measure/memory_bandwidth.h"

namespace baltoro::cli {
namespace {

using nlohmann::ordered_json;

ordered_json to_json(const MachineInfo& info) {
  ordered_json caches = ordered_json::array();
  for (const CacheInfo& cache : info.caches) {
    caches.push_back(
        {{"name", cache.name}, {"bytes", cache.bytes}, {"shared_by", cache.shared_by}});
  }
  return {{"cpu", info.cpu},         {"processors", info.processors},
          {"cores", info.cores},     {"isas", info.isas},
          {"caches", caches},        {"memory_bytes", info.memory_bytes},
          {"kernel", info.kernel},   {"compiler", info.compiler},
          {"version", info.version}, {"commit", info.commit},
          {"date", info.date},       {"load", info.load}};
}

std::string describe_machine(const MachineInfo& info) {
  std::string caches;
  for (const CacheInfo& cache : info.caches) {
    caches +=
        fmt::format("{} {}, ", cache.name, human_bytes(static_cast<std::uint64_t>(cache.bytes)));
  }
  return fmt::format("{}, {} cores, {}{} memory, {}, load {:.2f}", info.cpu, info.cores, caches,
                     human_bytes(info.memory_bytes), info.kernel, info.load);
}

ordered_json to_json(const std::vector<Sample>& samples) {
  ordered_json list = ordered_json::array();
  for (const Sample& sample : samples) {
    ordered_json one = {{"seconds", sample.seconds}, {"runs", sample.runs}};
    if (sample.floor_seconds) one["floor_seconds"] = *sample.floor_seconds;
    if (sample.disturbance) {
      one["other_cores"] = sample.disturbance->other_cores;
      one["steal"] = sample.disturbance->steal;
    }
    list.push_back(one);
  }
  return list;
}

// Tokens a second of a model row at so many seconds a run.
double rate(const BenchRow& row, double seconds) {
  return static_cast<double>(row.batch * row.tokens) / seconds;
}

ordered_json to_json(const BenchRow& row, bool model) {
  ordered_json out = {{"name", row.name}, {"threads", row.threads}};
  if (model) {
    out["batch"] = row.batch;
    out["depth"] = row.depth;
    out["tokens"] = row.tokens;
  }
  out["status"] = !row.fault.empty() ? "wrong" : row.samples.gave_up ? "disturbed" : "ok";
  if (!row.fault.empty()) {
    out["fault"] = row.fault;
    return out;
  }
  out["flops"] = row.work.flops;
  out["bytes"] = row.work.bytes;
  out["floor_seconds"] = row.floor.seconds;
  out["bound"] = to_string(row.floor.bound);
  if (row.measured()) {
    const Summary s = row.samples.seconds();
    out["seconds"] = {{"median", s.median}, {"min", s.min}, {"max", s.max}, {"mad", s.mad}};
    if (model) out["tokens_per_second"] = rate(row, s.median);
    out["share_of_roof"] = row.share_of_roof();
    if (row.samples.have_floors()) {
      const Summary shares = row.samples.shares();
      out["share_range"] = {{"min", shares.min}, {"max", shares.max}, {"mad", shares.mad}};
    }
    out["noisy"] = row.samples.noisy();
  }
  out["samples"] = to_json(row.samples.kept);
  out["dropped"] = to_json(row.samples.dropped);
  return out;
}

// What both tables have behind the time: rates and the roof.
std::string rates(const BenchRow& row) {
  const double median = row.samples.seconds().median;
  std::string range;
  if (row.samples.have_floors()) {
    const Summary shares = row.samples.shares();
    range = fmt::format("{:.0f}..{:.0f}", 100 * shares.min, 100 * shares.max);
  }
  return fmt::format("{:8.2f} {:9.1f} {:5.0f} % {:<10} {:>8} ", row.work.bytes / median / 1e9,
                     row.work.flops / median / 1e9, 100 * row.share_of_roof(),
                     to_string(row.floor.bound), range);
}

std::string remarks(const BenchRow& row) {
  std::string text;
  if (row.samples.noisy()) text += "  noisy";
  if (!row.samples.dropped.empty()) {
    text += fmt::format("  {} dropped", row.samples.dropped.size());
  }
  return text;
}

std::string model_line(const BenchRow& row) {
  const Summary s = row.samples.seconds();
  return fmt::format("{:<14} {:7} {:5} {:6} {:9.2f} {:>19} {}{}", row.name, row.threads, row.batch,
                     row.depth, rate(row, s.median),
                     fmt::format("{:.2f}..{:.2f}", rate(row, s.max), rate(row, s.min)), rates(row),
                     remarks(row));
}

std::string op_line(const BenchRow& row) {
  const Summary s = row.samples.seconds();
  return fmt::format("{:7} {:10.1f} {:>19} {} {}{}", row.threads, 1e6 * s.median,
                     fmt::format("{:.1f}..{:.1f}", 1e6 * s.min, 1e6 * s.max), rates(row), row.name,
                     remarks(row));
}

constexpr const char* kModelHeader =
    "\ntest           threads batch  depth  tokens/s            min..max     GB/s   GFLOP/s  of "
    "the "
    "roof      min..max\n";
constexpr const char* kOpsHeader =
    "\nthreads         us            min..max     GB/s   GFLOP/s  of the roof      min..max  "
    "case\n";

// Parts, and what they leave of the step.
Table parts_table(const StepExplanation& step) {
  Table table;
  table.columns = {{"part", "part", "", "", "", 1},
                   {"calls", "calls", "", "", "formula", 1},
                   {"bytes", "bytes", "MB", "B", "formula", 1e-6},
                   {"seconds", "time", "us", "s", "measured", 1e6},
                   {"share", "of the", "step", "", "measured", 1},
                   {"floor_seconds", "floor", "us", "s", "measured", 1e6},
                   {"share_of_floor", "reached", "", "", "measured", 1},
                   {"bound", "bound", "", "", "", 1}};
  const auto percent = [](double share) { return fmt::format("{:.1f} %", 100 * share); };
  double floors = 0;
  for (const PartRow& row : step.parts) {
    floors += row.floor.seconds;
    table.rows.push_back({plan::part_name(row.part), static_cast<double>(row.calls), row.work.bytes,
                          row.seconds, percent(row.seconds / step.seconds()), row.floor.seconds,
                          row.seconds > 0 ? percent(row.floor.seconds / row.seconds) : "-",
                          to_string(row.floor.bound)});
  }
  constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
  table.rows.push_back(
      {"rest", kNone, kNone, step.rest(), percent(step.rest() / step.seconds()), kNone, "-", "-"});
  table.rows.push_back({"step", kNone, kNone, step.seconds(), percent(1), floors,
                        percent(floors / step.seconds()), "-"});
  return table;
}

std::string complaint(const BenchRow& row) {
  const std::string where = fmt::format("{}, {} threads", row.name, row.threads);
  if (!row.fault.empty()) {
    return fmt::format("{}: not timed, for the result is wrong: {}", where, row.fault);
  }
  return fmt::format("{}: no result: {}; stop what else runs here, or give --allow-noise", where,
                     describe_dropped(row.samples));
}

}  // namespace

BenchReport::BenchReport(std::string suite, const BenchOptions& options, const MachineInfo& machine)
    : model_(suite == "model") {
  if (options.json) file_.emplace(*options.json);
  document_ = {{"format", "baltoro-bench-1"}, {"suite", suite}, {"machine", to_json(machine)}};
  document_["settings"] = {{"repeats", options.repeat.repeats},
                           {"max_dropped", options.repeat.max_dropped},
                           {"sample_seconds", options.repeat.sample_seconds},
                           {"allow_noise", options.repeat.allow_noise}};
  document_["roofs"] = ordered_json::array();
  document_["rows"] = ordered_json::array();
  fmt::print("machine   {}\n", describe_machine(machine));
  fmt::print("build     {} {}, {}\n", machine.version, machine.commit, machine.compiler);
}

void BenchReport::note(const std::string& key, const std::string& text) {
  fmt::print("{:<9} {}\n", key, text);
  std::fflush(stdout);
  document_[key] = text;
}

void BenchReport::detail(const std::string& key, ordered_json value) {
  document_["settings"][key] = std::move(value);
}

void BenchReport::roofs(Roof& roof, int threads) {
  for (const ordered_json& known : document_["roofs"]) {
    if (known["threads"] == threads) return;
  }
  const double read = roof.read_bandwidth(threads, static_cast<double>(kMemoryProbeBytes));
  const double update = roof.update_bandwidth(threads, static_cast<double>(kMemoryProbeBytes));
  const double f32 = roof.peak(threads, Activations::kF32);
  const double bf16 = roof.peak(threads, Activations::kBf16);
  fmt::print(
      "roof      {} threads: read {:.2f} GB/s, update {:.2f} GB/s, f32 {:.1f} GFLOP/s, bf16 {:.1f} "
      "GFLOP/s\n",
      threads, read / 1e9, update / 1e9, f32 / 1e9, bf16 / 1e9);
  document_["roofs"].push_back({{"threads", threads},
                                {"read_bytes_per_second", read},
                                {"update_bytes_per_second", update},
                                {"f32_flops_per_second", f32},
                                {"bf16_flops_per_second", bf16}});
}

void BenchReport::row(const BenchRow& row) {
  document_["rows"].push_back(to_json(row, model_));
  if (!row.measured()) {
    failed_ = true;
    std::fflush(stdout);
    fmt::print(stderr, "baltoro: error: {}\n", complaint(row));
    return;
  }
  if (!header_printed_) fmt::print("{}", model_ ? kModelHeader : kOpsHeader);
  header_printed_ = true;
  fmt::print("{}\n", model_ ? model_line(row) : op_line(row));
  std::fflush(stdout);
}

void BenchReport::explanation(const StepExplanation& step) {
  const std::string name = fmt::format("decode of {} behind {} tokens, {} threads",
                                       step.shape.batch, step.shape.depth, step.threads);
  if (step.samples.gave_up) {
    failed_ = true;
    fmt::print(stderr,
               "baltoro: error: {}: no result: {}; stop what else runs here, or give "
               "--allow-noise\n",
               name, describe_dropped(step.samples));
    return;
  }
  const Table table = parts_table(step);
  const bool left_out = step.clock == PartClock::kLeftOut;
  const Summary s = step.samples.seconds();  // of a run
  fmt::print(
      "\n{}: {:.1f} us a step ({:.1f}..{:.1f}); {}\n{}", name, 1e6 * step.seconds(),
      1e6 * s.min / kStepsOfARun, 1e6 * s.max / kStepsOfARun,
      left_out ? "a part takes what a step is shorter by without it" : "ops timed one by one",
      table_text(table));
  std::fflush(stdout);
  document_["steps"].push_back({{"batch", step.shape.batch},
                                {"depth", step.shape.depth},
                                {"threads", step.threads},
                                {"seconds", step.seconds()},
                                {"steps_of_a_run", kStepsOfARun},
                                {"clock", left_out ? "left out" : "ops"},
                                {"samples", to_json(step.samples.kept)},
                                {"parts", table_json(table)}});
}

int BenchReport::finish() {
  if (file_) {
    const std::string text = json_text(document_);
    file_->write(std::as_bytes(std::span(text)));
    file_->finish();
  }
  return failed_ ? kFailed : kOk;
}

}  // namespace baltoro::cli
