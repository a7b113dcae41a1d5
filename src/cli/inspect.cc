// `baltoro inspect`: what a model is made of, from its configuration alone, and what its files
// hold.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "baltoro/engine.h"
#include "cli/arguments.h"
#include "cli/command.h"
#include "cli/format.h"
#include "cli/inspect_verify.h"
#include "cli/memory_report.h"
#include "core/error.h"
#include "io/checkpoint_files.h"
#include "model/config.h"
#include "model/model_stats.h"

namespace baltoro::cli {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

struct InspectOptions {
  std::string path;
  std::optional<float> latent_norm_eps;
  bool plan = false;                    // --memory was given
  std::optional<std::uint64_t> memory;  // absent: auto
  bool verify = false;
  bool progress = false;
  bool json = false;
};

// What the files hold, where there are files.
struct FoundFiles {
  std::size_t num_files = 0;
  std::size_t num_tensors = 0;
  std::uint64_t bytes = 0;
  std::map<std::string, std::uint64_t> format_bytes;  // MXFP4 and MXINT8 with their scales
};

std::string format_of(const CheckpointFiles& files, const TensorInfo& tensor) {
  constexpr std::string_view kScale = ".weight_scale";
  const TensorInfo* codes = &tensor;
  if (tensor.name.ends_with(kScale)) {
    codes =
        files.find(tensor.name.substr(0, tensor.name.size() - kScale.size()) + ".weight_packed");
  }
  if (codes != nullptr && codes->name.ends_with(".weight_packed")) {
    return codes->dtype == DType::kI8 ? "MXINT8" : "MXFP4";
  }
  return dtype_name(tensor.dtype);
}

// One letter a layer: K (KDA) or M (MLA), small where the FFN is dense; | where a block of
// Attention Residuals begins.
std::string schedule(const ModelConfig& config) {
  std::string line;
  for (std::size_t i = 0; i < config.layers.size(); ++i) {
    const auto sublayer = static_cast<std::int64_t>(2 * i);
    if (i > 0 && config.attn_res_sublayers > 1 && sublayer % config.attn_res_sublayers == 0) {
      line += '|';
    }
    const bool is_kda = config.layers[i].mixer == MixerKind::kKda;
    const bool is_dense = config.layers[i].ffn == FfnKind::kDense;
    line += is_kda ? (is_dense ? 'k' : 'K') : (is_dense ? 'm' : 'M');
  }
  return line;
}

const char* gate_name(OutputGate gate) {
  switch (gate) {
    case OutputGate::kNone:
      return "no output gate";
    case OutputGate::kLowRank:
      return "low-rank output gate";
    case OutputGate::kFull:
      return "full output gate";
  }
  return "?";
}

std::string layers_text(std::int64_t layers) {
  return counted(static_cast<std::uint64_t>(layers), "layer");
}

std::string kda_line(const KdaConfig& kda, std::int64_t layers) {
  const std::string decay = kda.gate_lower_bound
                                ? fmt::format("decay bounded by {:g}", *kda.gate_lower_bound)
                                : std::string("softplus decay");
  return fmt::format("{}, {} heads {}x{}, conv {}, {}{}, {}", layers_text(layers), kda.num_heads,
                     kda.head_dim_k, kda.head_dim_v, kda.conv_width, decay,
                     kda.decay_per_head ? " a head" : "", gate_name(kda.output_gate));
}

std::string mla_line(const MlaConfig& mla, std::int64_t layers) {
  const std::string position = mla.rope_theta ? fmt::format("rotated, theta {:g}", *mla.rope_theta)
                                              : std::string("no positions");
  if (mla.kind == MlaKind::kGqa) {
    return fmt::format("{}, GQA, {} heads on {} of keys {} and values {}, {}", layers_text(layers),
                       mla.num_heads, mla.num_kv_heads, mla.qk_nope_dim, mla.v_head_dim,
                       gate_name(mla.output_gate));
  }
  return fmt::format("{}, {}, {} heads {}+{} to {}, latent {}, query rank {}, {}, {}",
                     layers_text(layers), mla.kind == MlaKind::kMqa ? "native MQA" : "MLA",
                     mla.num_heads, mla.qk_nope_dim, mla.qk_rope_dim, mla.v_head_dim,
                     mla.kv_lora_rank, mla.q_lora_rank, position, gate_name(mla.output_gate));
}

std::string moe_line(const MoeConfig& moe, std::int64_t layers) {
  const std::string width = moe.latent_size > 0 ? fmt::format("latent {}{}", moe.latent_size,
                                                              moe.stable_norm ? " with norm" : "")
                                                : std::string("full width");
  return fmt::format("{}, {} of {} experts of {} in {}, {} shared, scale {:g}{}",
                     layers_text(layers), moe.experts_per_token, moe.num_experts,
                     moe.expert_ffn_size, width, moe.num_shared_experts, moe.routed_scaling_factor,
                     moe.router_reads_latent ? ", router reads the latent" : "");
}

std::string activation_name(const Activation& activation) {
  if (activation.kind == ActivationKind::kSwiglu) return "SwiGLU";
  return fmt::format("SiTU-GLU, caps {:g} and {:g}", activation.beta, activation.linear_beta);
}

std::string attn_res_name(const ModelConfig& config) {
  if (!config.has_attn_res()) return "plain residual";
  if (config.attn_res_sublayers == 1) return "Attention Residuals, full";
  return fmt::format("Attention Residuals, blocks of {} sub-layers", config.attn_res_sublayers);
}

void print_architecture(const ModelConfig& config) {
  fmt::print("layers        {}\n", schedule(config));
  fmt::print("              K KDA, M MLA, small: dense FFN{}\n",
             config.attn_res_sublayers > 1 ? ", |: a block of Attention Residuals begins" : "");
  fmt::print("widths        hidden {}, vocabulary {}, {}\n", config.hidden_size, config.vocab_size,
             layers_text(config.num_layers));
  const std::int64_t kda = config.num_layers_of(MixerKind::kKda);
  const std::int64_t mla = config.num_layers_of(MixerKind::kMla);
  const std::int64_t moe = config.num_layers_of(FfnKind::kMoe);
  const std::int64_t dense = config.num_layers_of(FfnKind::kDense);
  if (kda > 0) fmt::print("KDA           {}\n", kda_line(config.kda, kda));
  if (mla > 0) fmt::print("MLA           {}\n", mla_line(config.mla, mla));
  if (moe > 0) fmt::print("experts       {}\n", moe_line(config.moe, moe));
  if (dense > 0)
    fmt::print("dense FFN     {} of {}\n", layers_text(dense), config.intermediate_size);
  fmt::print("between       {}; {}\n", attn_res_name(config), activation_name(config.activation));
  fmt::print("eps           norms {:g}, latent norms {:g}\n", config.rms_norm_eps,
             config.latent_norm_eps);
}

std::string count(std::int64_t value) { return with_commas(static_cast<std::uint64_t>(value)); }

void print_sizes(const ModelConfig& config, const ModelStats& stats) {
  fmt::print("parameters    {} text, {} active a token{}\n", count(stats.text_parameters),
             count(stats.active_parameters),
             config.vision ? fmt::format(", {} vision", count(stats.vision_parameters)) : "");
  fmt::print("tensors       {}\n", count(stats.num_tensors));
  fmt::print("bytes         {} ({})\n", count(stats.total_bytes),
             human_bytes(static_cast<std::uint64_t>(stats.total_bytes)));
  std::size_t width = 0;
  for (int i = 0; i < kNumComponents; ++i) {
    width = std::max(width, std::string_view(component_name(static_cast<Component>(i))).size());
  }
  for (int i = 0; i < kNumComponents; ++i) {
    const auto component = static_cast<Component>(i);
    const ComponentStats& part = stats[component];
    if (part.num_tensors == 0) continue;
    fmt::print("  {:<{}}  {:>7} {:<7} {:>19} B {:>19} parameters\n", component_name(component),
               width, count(part.num_tensors), part.num_tensors == 1 ? "tensor" : "tensors",
               count(part.bytes), count(part.parameters));
  }
  fmt::print("decode        {} B of weights a token, {} of them experts\n",
             count(stats.active_bytes), count(stats.active_expert_bytes));
  fmt::print("cache         {} B a token (MLA, bf16)\n", count(stats.mla_cache_bytes_per_token));
  fmt::print("state         {} B a sequence (KDA, f32), {} B conv history\n",
             count(stats.kda_state_bytes), count(stats.kda_conv_bytes));
}

ordered_json to_json(const ModelConfig& config, const ModelStats& stats) {
  ordered_json components = ordered_json::object();
  for (int i = 0; i < kNumComponents; ++i) {
    const auto component = static_cast<Component>(i);
    const ComponentStats& part = stats[component];
    components[component_name(component)] = {
        {"tensors", part.num_tensors}, {"bytes", part.bytes}, {"parameters", part.parameters}};
  }
  return {{"layers", schedule(config)},
          {"num_layers", config.num_layers},
          {"hidden_size", config.hidden_size},
          {"vocab_size", config.vocab_size},
          {"attn_res_sublayers", config.attn_res_sublayers},
          {"latent_norm_eps", shortest(config.latent_norm_eps)},
          {"tensors", stats.num_tensors},
          {"bytes", stats.total_bytes},
          {"text_parameters", stats.text_parameters},
          {"active_parameters", stats.active_parameters},
          {"vision_parameters", stats.vision_parameters},
          {"active_bytes", stats.active_bytes},
          {"active_expert_bytes", stats.active_expert_bytes},
          {"expert_bytes", stats.expert_bytes},
          {"mla_cache_bytes_per_token", stats.mla_cache_bytes_per_token},
          {"kda_state_bytes", stats.kda_state_bytes},
          {"kda_conv_bytes", stats.kda_conv_bytes},
          {"components", components}};
}

bool has_weights(const fs::path& dir) {
  std::error_code error;
  return fs::exists(dir / "model.safetensors", error) ||
         fs::exists(dir / "model.safetensors.index.json", error);
}

std::optional<FoundFiles> find_files(const fs::path& dir) {
  if (!fs::is_directory(dir) || !has_weights(dir)) return std::nullopt;
  const CheckpointFiles files(dir);
  FoundFiles found{files.files().size(), files.tensors().size(), files.total_bytes(), {}};
  for (const TensorInfo& tensor : files.tensors()) {
    found.format_bytes[format_of(files, tensor)] += tensor.bytes;
  }
  return found;
}

// Where `run --memory` would put the weights.
MemoryPlan memory_plan(const InspectOptions& options) {
  EngineOptions engine;
  engine.memory_limit = options.memory;
  engine.latent_norm_eps = options.latent_norm_eps;
  return Engine::plan(options.path, engine);
}

int run(const InspectOptions& options) {
  const ModelConfig config =
      load_config(options.path, {.latent_norm_eps = options.latent_norm_eps});
  const ModelStats stats = compute_model_stats(config);
  const std::optional<FoundFiles> found = find_files(options.path);
  if ((options.verify || options.plan) && !found) {
    fail(ErrorCode::kUsage, "{} reads the {}, and {} is no directory with safetensors files",
         options.verify ? "--verify" : "--memory", options.verify ? "tensors" : "files' headers",
         options.path);
  }

  ordered_json document = to_json(config, stats);
  if (found) {
    document["files"] = {{"files", found->num_files},
                         {"tensors", found->num_tensors},
                         {"bytes", found->bytes},
                         {"format_bytes", found->format_bytes}};
  }
  std::optional<MemoryPlan> plan;
  if (options.plan) document["memory"] = cli::to_json(plan.emplace(memory_plan(options)));
  if (!options.json) {
    print_architecture(config);
    print_sizes(config, stats);
    if (found) {
      fmt::print("files         {} with {}, {} B\n", found->num_files,
                 counted(found->num_tensors, "tensor"), with_commas(found->bytes));
      for (const auto& [format, bytes] : found->format_bytes) {
        fmt::print("  {:<6}  {:>19} B\n", format, with_commas(bytes));
      }
    }
    if (plan) fmt::print("{}", describe(*plan, stats.active_bytes, 14));
    std::fflush(stdout);
  }
  int status = kOk;
  if (options.verify) {
    status = verify_model(config, options.path,
                          options.progress ? ProgressMode::kAlways : ProgressMode::kAuto,
                          options.json ? &document : nullptr);
  }
  if (options.json) print_json(document);
  return status;
}

}  // namespace

Command add_inspect(CLI::App& root) {
  auto options = std::make_shared<InspectOptions>();
  CLI::App* app = root.add_subcommand("inspect", "Architecture, sizes and state of a model");
  app->add_option("MODEL", options->path, "Model directory, or a config.json alone")->required();
  app->add_flag("--verify", options->verify,
                "Read every tensor: missing ones, NaN, bad scales, all-zero experts, checksums");
  CLI::Option* const memory = add_memory(*app, options->memory);
  add_latent_norm_eps(*app, options->latent_norm_eps);
  app->add_flag("--progress", options->progress,
                "Show the progress bar though stderr is no terminal");
  app->add_flag("--json", options->json, "Print one JSON document");
  app->footer(
      "Examples:\n"
      "  baltoro inspect models/story\n"
      "  baltoro inspect config.json --json\n"
      "  baltoro inspect models/story --verify\n"
      "  baltoro inspect Kimi-Linear-48B --memory 40GB\n"
      "--memory tells which weights would stay in memory and what a token would read from the "
      "files.\n"
      "The exit status of --verify is 3 where a tensor is damaged, missing or of another shape.");
  return {app, [options, memory] {
            options->plan = memory->count() > 0;
            return run(*options);
          }};
}

}  // namespace baltoro::cli
