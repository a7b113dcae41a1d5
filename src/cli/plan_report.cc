#include "cli/plan_report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>

#include "cli/format.h"
#include "cli/table.h"
#include "plan/arithmetic.h"
#include "plan/inventory.h"

namespace baltoro::cli {
namespace {

using plan::kAllParts;
using plan::Part;
using plan::PartTime;
using plan::PartWork;
using plan::PlanModel;
using plan::Quantity;
using plan::Scenario;
using plan::with_prefix;

std::string count(std::int64_t value) { return with_commas(static_cast<std::uint64_t>(value)); }

std::string count(double value) {
  if (!std::isfinite(value)) return "no";
  if (value >= 100) return count(static_cast<std::int64_t>(std::llround(value)));
  return fmt::format("{:.3g}", value);
}

// "104 G"
std::string counted_prefix(double value) {
  const std::string text = with_prefix(value);
  return text.ends_with(' ') ? text.substr(0, text.size() - 1) : text;
}

std::string line(const std::string& name, const std::string& text) { return wrapped(name, text); }

// Numbers of one class and source together: "memory 268 GB, 8 TB/s [datasheet: ...]".
class Numbers {
 public:
  void add(const char* name, const Quantity& value, const char* unit) {
    if (!value) return;
    const std::string from =
        fmt::format("[{}: {}]", plan::provenance_name(value.provenance), value.source);
    const std::string text = fmt::format("{} {}{}", name, with_prefix(value.value), unit);
    for (auto& [source, texts] : groups_) {
      if (source != from) continue;
      texts += ", " + text;
      return;
    }
    groups_.emplace_back(from, text);
  }
  std::string text() const {
    std::string out;
    for (const auto& [source, texts] : groups_) {
      out += fmt::format("{}{} {}", out.empty() ? "" : "; ", texts, source);
    }
    return out;
  }

 private:
  std::vector<std::pair<std::string, std::string>> groups_;
};

std::string title_line(const Scenario& s) {
  const plan::Workload& w = s.workload;
  std::string what;
  if (w.phase == plan::Phase::kPrefill || w.phase == plan::Phase::kMixed) {
    what =
        fmt::format(", {} of {} tokens{}", counted(static_cast<std::uint64_t>(w.prompts), "prompt"),
                    count(w.prompt_tokens()),
                    w.chunk > 0 ? fmt::format(" in chunks of {}", count(w.chunk)) : "");
  }
  if (w.phase != plan::Phase::kPrefill) {
    what += fmt::format(", batch {}, context {}", count(w.batch), count(w.context));
  }
  if (w.phase == plan::Phase::kVerify) {
    what += fmt::format(", {} proposed, {:g} kept a step", w.draft, w.accepted);
  }
  return line("plan", fmt::format("{} on {} x {} ({}), {}{}", s.model.name, s.layout.devices(),
                                  s.hardware.title, plan::describe(s.layout),
                                  plan::phase_name(w.phase), what));
}

std::string model_lines(const PlanModel& model) {
  std::vector<std::string> stored;
  const plan::Formats& f = model.formats;
  const auto add = [&](const char* name, Part part, plan::Format format) {
    const double bytes = plan::part_bytes(model, part);
    if (bytes > 0) stored.push_back(fmt::format("{} {}", name, plan::format_name(format)));
  };
  add("routed", Part::kRouted, f.routed);
  add("attention", Part::kKdaProj, f.attn);
  if (model.num_kda() == 0) add("attention", Part::kAttnProj, f.attn);
  add("latent", Part::kLatent, f.latent);
  add("shared", Part::kShared, f.shared);
  add("dense", Part::kDense, f.dense);
  add("head", Part::kHead, f.head);
  std::string out = line(
      "model", fmt::format("{} parameters, {} active; {}B stored ({}); cache {} {} B a token",
                           counted_prefix(plan::total_parameters(model)),
                           counted_prefix(plan::active_parameters(model)),
                           with_prefix(plan::total_bytes(model)), fmt::join(stored, ", "),
                           plan::format_name(f.kv), count(plan::cache_bytes_per_token(model))));
  if (model.num_kda() > 0) {
    out += line("", fmt::format("state {} {}B a sequence and {}B of convolution history",
                                plan::format_name(f.state),
                                with_prefix(plan::state_bytes_per_sequence(model)),
                                with_prefix(plan::conv_bytes_per_sequence(model))));
  }
  for (const std::string& what : model.not_in_engine) {
    out += line("", "the engine does not run its " + what);
  }
  return out;
}

std::string machine_lines(const Scenario& s) {
  const plan::Hardware& h = s.hardware;
  Numbers numbers;
  numbers.add("memory", h.memory_bytes, "B");
  numbers.add("bandwidth", h.memory_bandwidth, "B/s");
  numbers.add("BF16 peak", h.bf16_flops, "FLOP/s");
  if (s.layout.devices() > 1) {
    numbers.add("scale-up", h.scale_up_bandwidth, "B/s");
    if (s.layout.devices() > h.scale_up_domain) {
      numbers.add("scale-out", h.scale_out_bandwidth, "B/s");
    }
  }
  if (s.efficiency.latencies && !s.layout.experts_on_host) {
    numbers.add("a layer", h.layer_seconds, "s");
    if (s.layout.devices() > 1) numbers.add("a collective", h.scale_up_latency, "s");
    if (s.model.num_kda() > 0) numbers.add("64 tokens of scan", h.scan_chunk_seconds, "s");
  }
  if (s.layout.experts_on_host) {
    numbers.add("DRAM", h.dram_bytes, "B");
    numbers.add("DRAM bandwidth", h.dram_bandwidth, "B/s");
    numbers.add("NVMe", h.nvme_bandwidth, "B/s");
  }
  const plan::MmaPath path = plan::mma_path(h, s.model.formats.routed);
  std::string out = line("machine", numbers.text());
  if (s.model.num_moe() > 0) {
    out += line("products", fmt::format("routed experts {} at {}FLOP/s: {}", path.name,
                                        with_prefix(path.flops), path.reason));
  }
  const plan::MmaPath rest = plan::mma_path(h, s.model.formats.attn);
  out += line(
      s.model.num_moe() > 0 ? "" : "products",
      fmt::format("mixers {} at {}FLOP/s: {}", rest.name, with_prefix(rest.flops), rest.reason));
  if (s.layout.experts_on_host) return out;  // whose tiers are bounds by their own numbers
  switch (s.efficiency.kind) {
    case plan::Efficiency::Kind::kDatasheet:
      return out + line("rates",
                        "datasheet peaks, nothing beside them: times are a bound, not a "
                        "prediction");
    case plan::Efficiency::Kind::kTypical:
      return out + line("rates",
                        "typical shares of public kernels, not measured here: times are an "
                        "estimate (--eff datasheet for the bound)");
    case plan::Efficiency::Kind::kMeasured:
      break;
  }
  return out + line("rates", "measured on this machine");
}

std::string capacity_lines(const PlanResult& r) {
  const plan::Capacity& c = r.capacity;
  const plan::StageMemory& stage = c.fullest();
  const plan::Workload& w = r.scenario.workload;
  std::string out =
      line("memory",
           fmt::format("a device: {}B of {}B usable ({:.0f} %); weights {}B, of them {}B "
                       "copies of what other ranks hold; workspace {}B",
                       with_prefix(c.usable), with_prefix(r.scenario.hardware.memory_bytes.value),
                       100 * plan::kMemoryShare, with_prefix(stage.weights),
                       with_prefix(stage.replicated), with_prefix(c.workspace)));
  out += line("", fmt::format("a sequence there: {}B of state, {} B of cache a token",
                              with_prefix(stage.state_per_sequence), count(stage.cache_per_token)));
  if (c.free < 0) {
    out += line("fits", fmt::format("NO: the {} exceed it by {}B",
                                    stage.weights > c.usable ? "weights" : "weights and workspace",
                                    with_prefix(-c.free)));
  } else {
    const std::string longest =
        stage.cache_per_token > 0 ? count(c.max_context) + " tokens" : std::string("any length");
    out += line("fits", fmt::format("{}: {}B free, at most {} at {} tokens, or {} at batch {}",
                                    c.fits ? "yes" : "NO", with_prefix(c.free),
                                    counted(static_cast<std::uint64_t>(c.max_batch), "sequence"),
                                    count(w.context), longest, count(w.batch)));
  }
  if (r.fewest) {
    const std::int64_t domain = r.scenario.hardware.scale_up_domain;
    const std::int64_t whole = (r.fewest->devices + domain - 1) / domain * domain;
    out += line("", fmt::format("fewest devices for this batch and context: {} ({}){}",
                                r.fewest->devices, plan::describe(r.fewest->layout),
                                domain > 1 ? fmt::format(", {} in whole domains", whole) : ""));
  } else {
    out += line("", "no split by heads and stages of any number of these devices holds it");
  }
  return out;
}

std::string offload_lines(const PlanResult& r) {
  const plan::Offload& o = *r.offload;
  std::string out =
      line("experts",
           fmt::format("on the host: {}B resident in device memory and DRAM, {:.1f} % of reads "
                       "hit; {}B of experts a token",
                       with_prefix(o.resident_experts), 100 * o.hit_rate,
                       with_prefix(o.expert_bytes_per_token)));
  out += line("", fmt::format("weights but experts: {}B on the device, {}B in DRAM",
                              with_prefix(o.device_bytes), with_prefix(o.host_rest_bytes)));
  out += line("tiers", fmt::format("a token: device {}s, DRAM {}s, NVMe {}s; the longest is {}",
                                   with_prefix(o.device_seconds), with_prefix(o.dram_seconds),
                                   with_prefix(o.nvme_seconds), o.bound()));
  std::string text = fmt::format("bound {:.2f} tok/s", 1 / o.seconds());
  if (o.nvme_seconds > 0) {
    text += fmt::format(", {:.2f} with no expert in memory", 1 / o.cold_seconds);
  }
  out += line("decode", text);
  return out;
}

std::string moe_lines(const PlanResult& r) {
  const plan::MoeLine& m = *r.moe;
  std::string out =
      line("experts",
           fmt::format("t = {} tokens touch D = {:.1f} of {} experts, tau = {:.3g} rows an expert "
                       "({:.3g} a touched one); bound by FLOPs from tau* = {:.0f}, t* = {} tokens",
                       count(m.tokens), m.distinct, count(r.scenario.model.config.moe.num_experts),
                       m.rows_per_expert, m.rows_per_touched, m.knee_rows, count(m.knee_tokens)));
  out +=
      line("", fmt::format("a layer: messages {}s, products {}s, weights {}s{}",
                           with_prefix(m.messages), with_prefix(m.compute), with_prefix(m.memory),
                           m.skew > 1 ? fmt::format(", slowest rank x {:.2f}", m.skew) : ""));
  if (m.bandwidth > 0) {
    std::string text = fmt::format(
        "T_comm / T_compute above t*: {:.2f} by the notes' F / (3 m B), {:.2f} with {:g} B a value",
        m.rho_notes, m.rho, m.bytes_both_ways);
    if (m.rho_full > 0) {
      text += fmt::format(", {:.2f} with locality and copies, {:.2f} over all experts' products",
                          m.rho_full, m.rho_layer);
    }
    out += line("", text);
  }
  return out;
}

std::string totals_lines(const PlanResult& r) {
  const plan::Totals& t = *r.totals;
  const plan::Efficiency& e = r.scenario.efficiency;
  const auto span = [&](double seconds) {
    if (e.kind == plan::Efficiency::Kind::kDatasheet) return std::string();
    return fmt::format(" ({}s to {}s)", with_prefix(seconds * e.residuals.first),
                       with_prefix(seconds * e.residuals.second));
  };
  const double seconds = t.step.seconds();
  std::string out =
      line(e.result_name(),
           fmt::format("step {}s{}: kernels {}s, network not hidden {}s", with_prefix(seconds),
                       span(seconds), with_prefix(t.step.kernel_seconds()),
                       with_prefix(t.step.network_seconds())));
  std::string text = fmt::format("TTFT {}s{}", with_prefix(t.ttft), span(t.ttft));
  if (t.tpot > 0) {
    text += fmt::format(", TPOT {}s{}, {:.4g} tok/s a user", with_prefix(t.tpot), span(t.tpot),
                        t.tokens_per_user);
  }
  text += fmt::format(", {:.4g} tok/s a device; MFU {:.1f} % of BF16, MBU {:.1f} %",
                      t.tokens_per_device, 100 * t.flop_utilization, 100 * t.byte_utilization);
  return out + line("", text);
}

std::string knee_lines(const std::vector<plan::Knee>& knees) {
  std::string out;
  for (const plan::Knee& knee : knees) {
    const std::string from = knee.value > 0 ? fmt::format("{:>7} {}", count(knee.value), knee.unit)
                                            : fmt::format("{:>7}", "any");
    out += line(out.empty() ? "knees" : "", fmt::format("{} {}", from, knee.meaning));
  }
  return out;
}

std::string recommendation_lines(const PlanResult& r) {
  std::string out;
  for (const plan::Recommendation& rec : r.recommendations) {
    std::string text = fmt::format("{} ({}): ", rec.change, rec.how);
    text += fmt::format("{}{}s ({:+.1f} %)", rec.seconds < 0 ? "-" : "+",
                        with_prefix(std::abs(rec.seconds)), 100 * rec.seconds / rec.before);
    if (rec.batch != 0) text += fmt::format(", largest batch {:+.0f}", rec.batch);
    out += line(out.empty() ? "try" : "", text);
  }
  return out;
}

}  // namespace

std::string stage_note(const Scenario& s) {
  if (s.layout.pp == 1) return "";
  const std::int64_t layers = s.model.config.num_layers;
  const std::int64_t most = plan::ceil_div(layers, s.layout.pp);
  std::string text = fmt::format(
      "the table and the times are those of a microbatch through all {} stages", s.layout.pp);
  if (layers % s.layout.pp != 0) {
    text += fmt::format(
        ", as if they were alike; the slowest has {} of the {} layers, {:.3g} x the mean, and a "
        "full pipeline goes at its pace",
        most, layers, plan::real(most * s.layout.pp) / plan::real(layers));
  }
  return text;
}

std::string step_table(const plan::Step& step) {
  // A microbatch passes one device of each pipeline stage.
  const bool staged = static_cast<double>(step.microbatches) > step.duty;
  std::string out = fmt::format("{:<10}{:>10}{:>10}{:>9}{:>9}{:>10}{:>9}{:>10}{:>9}{:>7}\n",
                                staged ? "all stages" : "a device", "GFLOP", "weights", "act.",
                                "cache", "net MB", "FLOP/B", "ms", "bound", "%");
  out += fmt::format("{:<10}{:>10}{:>10}{:>9}{:>9}\n", "", "", "GB", "GB", "GB");
  const double all = step.seconds();
  const auto row = [&](const char* name, const PartWork& w, double seconds, const char* bound) {
    const double intensity = w.bytes() > 0 ? w.flops / w.bytes() : 0;
    out += fmt::format(
        "{:<10}{:>10.4g}{:>10.4g}{:>9.3g}{:>9.3g}{:>10.4g}{:>9.3g}{:>10.4g}{:>9}{:>7.1f}\n", name,
        w.flops / 1e9, w.weight_bytes / 1e9, w.activation_bytes / 1e9, w.cache_bytes / 1e9,
        w.network.bytes() / 1e6, intensity, 1e3 * seconds, bound, 100 * seconds / all);
  };
  for (const Part part : kAllParts) {
    const PartWork& work = step.work_of(part);
    const PartTime& time = step.time_of(part);
    if (work.bytes() == 0 && time.seconds() == 0) continue;
    row(plan::part_name(part), work, time.seconds(), plan::bound_name(time.bound));
  }
  row("total", step.total(), all, "");
  return out;
}

PlanResult compute_plan(const Scenario& scenario) {
  PlanResult result;
  result.scenario = scenario;
  result.capacity = plan::compute_capacity(scenario);
  result.fewest = plan::fewest_devices(scenario);
  if (scenario.layout.experts_on_host && scenario.model.num_moe() > 0) {
    plan::check_offload(scenario.workload);
    result.offload =
        plan::compute_offload(scenario.model, scenario.hardware, scenario.layout.devices());
    return result;
  }
  result.totals = plan::compute_totals(scenario);
  if (scenario.model.num_moe() > 0) {
    result.moe = plan::compute_moe_line(scenario, result.totals->step);
  }
  result.knees = plan::find_knees(scenario);
  result.recommendations = plan::recommend(scenario);
  return result;
}

std::string plan_text(const PlanResult& result) {
  std::string out = title_line(result.scenario);
  out += model_lines(result.scenario.model);
  out += machine_lines(result.scenario);
  if (result.offload) return out + offload_lines(result);
  out += capacity_lines(result);
  out += "\n" + step_table(result.totals->step) + "\n";
  const std::string stages = stage_note(result.scenario);
  if (!stages.empty()) out += line("stages", stages);
  out += totals_lines(result);
  if (result.moe) out += moe_lines(result);
  out += knee_lines(result.knees);
  return out + recommendation_lines(result);
}

std::string explanation_text(const plan::Explanation& explanation) {
  std::string out = line(plan::part_name(explanation.part), explanation.what);
  for (const plan::ExplainedTerm& term : explanation.terms) {
    out += fmt::format("  {}\n", term.name);
    out += line("", term.formula);
    out += line("", term.numbers);
  }
  return out + line("source", explanation.source);
}

}  // namespace baltoro::cli
