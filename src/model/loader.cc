#include "model/loader.h"

#include <algorithm>
#include <charconv>
#include <string_view>

#include "core/error.h"
#include "io/listing.h"
#include "io/memory.h"
#include "model/tensor_binder.h"
#include "model/tensor_names.h"

namespace baltoro {
namespace {

// Binds one model; names and shapes stand here in the order of the specification's tables.
class ModelBinder {
 public:
  ModelBinder(const ModelConfig& config, WeightStore& store, const Partition& partition)
      : config_(config),
        partition_(partition),
        names_(store.find(std::string(kTextPrefix) + "model.embed_tokens.weight") != nullptr ||
               (store.find("model.embed_tokens.weight") == nullptr && config.layout.nested)),
        dir_(store.files().path().string()),
        binder_(store, partition),
        hidden_(config.hidden_size) {}

  BoundWeights bind() {
    BoundWeights bound;
    ModelWeights& weights = bound.weights;
    weights.partition = partition_;
    weights.embed = binder_.plain_matrix(names_.model("embed_tokens"), config_.vocab_size, hidden_);
    for (std::int64_t i = 0; i < config_.num_layers; ++i) weights.layers.push_back(layer(i));
    weights.final_norm = norm(names_.model("norm"), hidden_);
    if (config_.has_attn_res()) weights.output_attn_res = attn_res(names_.model("output_attn_res"));
    if (config_.tie_word_embeddings) {
      binder_.tied(names_.top("lm_head"), names_.model("embed_tokens"));
      const std::int64_t rows = config_.vocab_size / partition_.size;
      if (weights.embed) weights.lm_head = weights.embed.slice_rows(rows * partition_.rank, rows);
    } else {
      weights.lm_head =
          binder_.matrix(names_.top("lm_head"), config_.vocab_size, hidden_, Split::kRows);
    }
    binder_.throw_if_bad();
    bound.report = binder_.report();
    refuse_contradictions(bound.report);
    return bound;
  }

 private:
  // True for a tensor of a module that the model has: unread, it would be missed. A bias, a gate, a
  // norm or an expert that the configuration does not speak of changes the result.
  bool belongs_to_model(std::string_view name) const {
    if (name.ends_with("rotary_emb.inv_freq")) return false;  // a table, not a weight
    const std::string stem = names_.model("");
    if (!name.starts_with(stem)) return false;
    name.remove_prefix(stem.size());
    if (!name.starts_with("layers.")) return name.starts_with("output_attn_res_");
    name.remove_prefix(std::string_view("layers.").size());
    std::int64_t layer_idx = -1;
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), layer_idx);
    // Layers behind the last are draft layers, which are not run.
    if (error != std::errc() || layer_idx >= config_.num_layers) return false;
    name.remove_prefix(static_cast<std::size_t>(end - name.data()));
    for (const char* module : {".self_attn.", ".mlp.", ".block_sparse_moe.", ".self_attention_res_",
                               ".mlp_res_", ".input_layernorm.", ".post_attention_layernorm."}) {
      if (name.starts_with(module)) return true;
    }
    return false;
  }

  void refuse_contradictions(const BindReport& report) const {
    std::vector<std::string> names;
    for (const std::string& name : report.unused) {
      if (belongs_to_model(name)) names.push_back(name);
    }
    if (names.empty()) return;
    fail(ErrorCode::kBadModel,
         "{}: the configuration has no use for {} of its own modules, such as {}; it does not "
         "describe these weights",
         dir_, counted(names.size(), "tensor", "tensors"), list_names(names, names.size(), 3));
  }

  std::vector<float> norm(const std::string& name, std::int64_t size) {
    return binder_.vector(name + ".weight", {{size}}, size);
  }

  AttnResWeights attn_res(const std::string& name) {
    return {norm(name + "_norm", hidden_),
            binder_.vector(name + "_proj.weight", {{1, hidden_}, {hidden_}}, hidden_)};
  }

  GateWeights gate(const std::string& mixer, OutputGate kind, std::int64_t rank,
                   std::int64_t width) {
    GateWeights gate;
    if (kind == OutputGate::kFull) {
      gate.full = binder_.matrix(mixer + "g_proj", width, hidden_, Split::kRows);
    } else if (kind == OutputGate::kLowRank) {
      gate.a = binder_.matrix(mixer + "g_a_proj", rank, hidden_);
      gate.b = binder_.matrix(mixer + "g_b_proj", width, rank, Split::kRows);
    }
    return gate;
  }

  std::vector<float> conv(const std::string& name, std::int64_t channels) {
    const std::int64_t width = config_.kda.conv_width;
    return binder_.vector(name + ".weight", {{channels, 1, width}, {channels, width}},
                          channels * width, Split::kRows);
  }

  KdaWeights kda(const std::string& mixer) {
    const KdaConfig& c = config_.kda;
    const std::int64_t padded = std::max(c.num_heads, c.head_dim_k);
    KdaWeights w;
    w.q_proj = binder_.matrix(mixer + "q_proj", c.key_width(), hidden_, Split::kRows);
    w.k_proj = binder_.matrix(mixer + "k_proj", c.key_width(), hidden_, Split::kRows);
    w.v_proj = binder_.matrix(mixer + "v_proj", c.value_width(), hidden_, Split::kRows);
    w.q_conv = conv(mixer + "q_conv1d", c.key_width());
    w.k_conv = conv(mixer + "k_conv1d", c.key_width());
    w.v_conv = conv(mixer + "v_conv1d", c.value_width());
    w.f_a_proj = binder_.matrix(mixer + "f_a_proj", c.decay_rank, hidden_);
    w.f_b_proj = binder_.matrix(mixer + "f_b_proj", c.decay_width(), c.decay_rank, Split::kRows);
    w.b_proj = binder_.matrix(mixer + "b_proj", c.num_heads, hidden_, Split::kRows);
    w.a_log = binder_.vector(mixer + "A_log", {{padded}, {c.num_heads}, {1, 1, c.num_heads, 1}},
                             c.num_heads, Split::kRows);
    w.dt_bias =
        binder_.vector(mixer + "dt_bias", {{c.decay_width()}}, c.decay_width(), Split::kRows);
    w.gate = gate(mixer, c.output_gate, c.gate_rank, c.value_width());
    w.o_norm = norm(mixer + "o_norm", c.head_dim_v);
    w.o_proj = binder_.matrix(mixer + "o_proj", hidden_, c.value_width(), Split::kCols);
    return w;
  }

  void mla_keys(const std::string& mixer, MlaWeights& w) {
    const MlaConfig& c = config_.mla;
    if (c.kind == MlaKind::kGqa) {
      w.k_proj =
          binder_.matrix(mixer + "k_proj", c.num_kv_heads * c.qk_nope_dim, hidden_, Split::kRows);
      w.v_proj =
          binder_.matrix(mixer + "v_proj", c.num_kv_heads * c.v_head_dim, hidden_, Split::kRows);
      return;
    }
    const std::int64_t head_rows =
        c.kind == MlaKind::kMqa ? c.v_head_dim : c.qk_nope_dim + c.v_head_dim;
    w.kv_a_proj =
        binder_.matrix(mixer + "kv_a_proj_with_mqa", c.kv_lora_rank + c.qk_rope_dim, hidden_);
    w.kv_a_norm = norm(mixer + "kv_a_layernorm", c.kv_lora_rank);
    w.kv_b_proj = binder_.plain_matrix(mixer + "kv_b_proj", c.num_heads * head_rows, c.kv_lora_rank,
                                       Split::kRows);
  }

  MlaWeights mla(const std::string& mixer) {
    const MlaConfig& c = config_.mla;
    const std::int64_t query_width = c.num_heads * c.qk_dim();
    MlaWeights w;
    if (c.q_lora_rank > 0) {
      w.q_a_proj = binder_.matrix(mixer + "q_a_proj", c.q_lora_rank, hidden_);
      w.q_a_norm = norm(mixer + "q_a_layernorm", c.q_lora_rank);
      w.q_b_proj = binder_.matrix(mixer + "q_b_proj", query_width, c.q_lora_rank, Split::kRows);
    } else {
      w.q_proj = binder_.matrix(mixer + "q_proj", query_width, hidden_, Split::kRows);
    }
    mla_keys(mixer, w);
    w.gate = gate(mixer, c.output_gate, c.gate_rank, c.value_width());
    w.o_proj = binder_.matrix(mixer + "o_proj", hidden_, c.value_width(), Split::kCols);
    return w;
  }

  GluWeights glu(const std::string& name, std::int64_t width) {
    return {binder_.matrix(name + "gate_proj", width, hidden_, Split::kRows),
            binder_.matrix(name + "up_proj", width, hidden_, Split::kRows),
            binder_.matrix(name + "down_proj", hidden_, width, Split::kCols)};
  }

  void experts(std::int64_t layer_idx, MoeWeights& w) {
    const MoeConfig& c = config_.moe;
    const std::int64_t width = c.latent_size > 0 ? c.latent_size : hidden_;
    const std::int64_t count = c.num_experts / partition_.size;
    w.first_expert = count * partition_.rank;
    for (std::int64_t e = w.first_expert; e < w.first_expert + count; ++e) {
      w.experts.push_back(
          {binder_.matrix(names_.expert(layer_idx, e, "w1"), c.expert_ffn_size, width),
           binder_.matrix(names_.expert(layer_idx, e, "w3"), c.expert_ffn_size, width),
           binder_.matrix(names_.expert(layer_idx, e, "w2"), width, c.expert_ffn_size)});
    }
    // Experts of other ranks are neither missing nor unused.
    if (partition_.size == 1) return;
    for (std::int64_t e = 0; e < c.num_experts; ++e) {
      for (const char* matrix : {"w1", "w2", "w3"}) {
        binder_.ignore(names_.expert(layer_idx, e, matrix));
      }
    }
  }

  MoeWeights moe(std::int64_t layer_idx) {
    const MoeConfig& c = config_.moe;
    const std::string name = names_.layer(layer_idx, "block_sparse_moe.");
    MoeWeights w;
    w.router = binder_.matrix(name + "gate", c.num_experts,
                              c.router_reads_latent ? c.latent_size : hidden_);
    w.router_bias =
        binder_.vector(name + "gate.e_score_correction_bias", {{c.num_experts}}, c.num_experts);
    if (c.latent_size > 0) {
      w.latent_down = binder_.matrix(name + "routed_expert_down_proj", c.latent_size, hidden_);
      w.latent_up = binder_.matrix(name + "routed_expert_up_proj", hidden_, c.latent_size);
    }
    if (c.stable_norm) w.latent_norm = norm(name + "routed_expert_norm", c.latent_size);
    if (c.num_shared_experts > 0) w.shared = glu(name + "shared_experts.", c.shared_ffn_size());
    experts(layer_idx, w);
    return w;
  }

  LayerWeights layer(std::int64_t layer_idx) {
    const LayerSpec spec = config_.layers[static_cast<std::size_t>(layer_idx)];
    const std::string mixer = names_.layer(layer_idx, "self_attn.");
    LayerWeights w;
    w.input_norm = norm(names_.layer(layer_idx, "input_layernorm"), hidden_);
    w.post_norm = norm(names_.layer(layer_idx, "post_attention_layernorm"), hidden_);
    if (config_.has_attn_res()) {
      w.attn_res_mixer = attn_res(names_.layer(layer_idx, "self_attention_res"));
      w.attn_res_ffn = attn_res(names_.layer(layer_idx, "mlp_res"));
    }
    if (spec.mixer == MixerKind::kKda) {
      w.mixer = kda(mixer);
    } else {
      w.mixer = mla(mixer);
    }
    if (spec.ffn == FfnKind::kMoe) {
      w.ffn = moe(layer_idx);
    } else {
      w.ffn = glu(names_.layer(layer_idx, "mlp."), config_.intermediate_size);
    }
    return w;
  }

  const ModelConfig& config_;
  Partition partition_;
  TensorNames names_;
  std::string dir_;
  TensorBinder binder_;
  std::int64_t hidden_;
};

void check_partition(const ModelConfig& config, const Partition& partition) {
  if (partition.size < 1 || partition.rank < 0 || partition.rank >= partition.size) {
    fail(ErrorCode::kUsage, "partition: rank {} of {}; the rule is 0 <= rank < size",
         partition.rank, partition.size);
  }
  const auto divides = [&](const char* what, std::int64_t count) {
    if (count % partition.size != 0) {
      fail(ErrorCode::kUsage, "partition: {} {} cannot be split between {} ranks", what, count,
           partition.size);
    }
  };
  divides("vocab_size", config.vocab_size);
  divides("KDA num_heads", config.kda.num_heads);
  divides("num_attention_heads", config.mla.num_heads);
  divides("num_key_value_heads", config.mla.num_kv_heads);
  divides("intermediate_size", config.intermediate_size);
  divides("num_experts", config.moe.num_experts);
  divides("width of the shared experts", config.moe.shared_ffn_size());
}

}  // namespace

BoundWeights bind(const ModelConfig& config, WeightStore& store, const Partition& partition) {
  check_partition(config, partition);
  return ModelBinder(config, store, partition).bind();
}

MemoryPlan plan_memory(const CheckpointFiles& files, const ModelConfig& config,
                       const LoadOptions& options) {
  WeightSizes sizes = weight_sizes(files, config, options.partition.size);
  if (options.first_device_layer) {
    if (*options.first_device_layer == 0) sizes.embedding = 0;
    sizes.head = 0;
    sizes.trunk.resize(static_cast<std::size_t>(*options.first_device_layer));
  }
  const std::uint64_t limit = options.memory_limit.value_or(default_memory_limit());
  const std::uint64_t working = resident_memory_bytes() + options.working_bytes;
  MemoryPlan plan = plan_memory(sizes, {options.mode, limit, working}, files.path().string());
  if (options.first_device_layer) {
    plan.host_layers = *options.first_device_layer;
    plan.device_layers = config.num_layers - plan.host_layers;
  }
  return plan;
}

LoadedModel load_model(const std::filesystem::path& dir, ModelConfig config,
                       const LoadOptions& options) {
  LoadedModel model;
  model.config = std::move(config);
  CheckpointFiles files(dir);
  model.plan = plan_memory(files, model.config, options);
  WeightStoreOptions store_options;
  store_options.maps = stays_in_file(model.plan, model.config);
  store_options.spare_page_cache =
      !model.plan.all_resident() || (options.memory_limit && model.plan.copies);
  model.store = std::make_unique<WeightStore>(std::move(files), store_options);
  BoundWeights bound = bind(model.config, *model.store, options.partition);
  model.weights = std::move(bound.weights);
  model.report = std::move(bound.report);
  model.store->load(options.progress);
  return model;
}

LoadedModel load_model(const std::filesystem::path& dir, const LoadOptions& options) {
  if (std::filesystem::is_regular_file(dir)) {
    fail(ErrorCode::kBadModel, "{} is a file; give the model's directory", dir.string());
  }
  return load_model(dir, load_config(dir, options.config), options);
}

}  // namespace baltoro
