// The engine: a loaded model, shared by sessions, and the one forward pass. See session.h for a
// single token timeline.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "baltoro/draw.h"
#include "baltoro/error.h"
#include "baltoro/memory_plan.h"
#include "baltoro/types.h"

namespace baltoro {

class Session;
class Snapshot;

struct EngineOptions {
  // "cpu", "reference" (scalar, double accumulation, slow), or "cuda[:N]" in builds that have it.
  std::string device = "cpu";
  Activations activations = Activations::kBf16;
  // kBf16: "cuda" and "reference" alone.
  KdaState kda_state = KdaState::kF32;
  // kFp8: "cuda" with the experts in its memory, and "reference"; MXFP4 experts.
  ExpertActivations expert_activations = ExpertActivations::kSame;
  // kFp8: "cuda" and "reference" alone, and not for models that cache keys and values (GQA).
  Latents latents = Latents::kAuto;
  int num_threads = 0;  // 0: physical cores within the container's limit
  // "scalar", "neon", "avx2", "avx512", "avx512bf16", "amx"; absent: the best that runs here.
  std::optional<std::string> isa = std::nullopt;
  std::optional<float> latent_norm_eps = std::nullopt;  // overrides config.json (docs/config.md)
  LoadMode load = LoadMode::kAuto;
  // Bytes that the process may take, the page cache of its weights included. Absent: what is free
  // within the container's limit, less a tenth of it but at most 4 GiB.
  std::optional<std::uint64_t> memory_limit = std::nullopt;
  // On a GPU: a row's bits do not depend on the rows beside it, at some cost in speed
  // (docs/numerics.md). On the CPU this always holds.
  bool deterministic = false;
  ExpertPlace experts = ExpertPlace::kAuto;
  // Bytes of a GPU's memory that may be taken; absent: what is free. memory_limit is the host's.
  std::optional<std::uint64_t> device_memory = std::nullopt;
  // Matrices of random values, made on the device: measures a model without its weights. The
  // directory then needs a config.json alone, or may be that file. GPUs only.
  bool random_weights = false;
  // Rows of one pass; a multiple of 64. Longer prompts take several passes.
  std::int64_t max_batch_rows = 512;
  // Called with bytes done and bytes in all while weights are read.
  std::function<void(std::size_t, std::size_t)> progress = {};
};

// What generation_config.json of the model says; absent fields are not in the file.
struct GenerationDefaults {
  std::optional<bool> do_sample;
  std::optional<float> temperature;
  std::optional<float> top_p;
  std::optional<float> min_p;
  std::optional<std::int64_t> top_k;
  std::optional<std::int64_t> max_new_tokens;
  std::vector<TokenId> stop_ids;  // eos_token_id of both files
};

// How long the weights took to their places. Seconds.
struct LoadTimes {
  double host = 0;    // headers, shapes, and what is copied into memory of the host
  double device = 0;  // the copy to a GPU; 0 without one
  // Of it, a chunk being read from the files while the device takes the one before, and then the
  // wait for the device: what is small is not what bounds the load.
  double filling = 0;
  double waiting = 0;
};

struct EngineInfo {
  std::string backend;  // "cpu/avx2"
  int num_threads = 1;
  std::int64_t vocab_size = 0;
  std::int64_t num_layers = 0;
  // Tokens of the longest sequence that the model was made for; absent: its config.json does not say.
  std::optional<std::int64_t> max_positions;
  std::int64_t total_params = 0;
  std::int64_t active_params = 0;
  std::int64_t weight_bytes = 0;  // all tensors of the text model
  // Read for one token at batch 1: trunk without embedding, chosen experts, head.
  std::int64_t decode_weight_bytes = 0;
  std::int64_t cache_bytes_per_token = 0;  // MLA cache as this backend stores it
  std::int64_t state_bytes = 0;            // one KDA and conv state
  // Of both, what layers that the CPU computes beside a GPU keep in memory of the host.
  std::int64_t host_cache_bytes_per_token = 0;
  std::int64_t host_state_bytes = 0;
  // Of configuration, tensors and activation type; guards saved sessions.
  std::uint64_t fingerprint = 0;
  std::int64_t max_batch_rows = 0;  // of one pass
  GenerationDefaults generation;
  MemoryPlan memory;
  LoadTimes load;
};

// One sequence's part of a forward pass.
struct BatchItem {
  Session* session = nullptr;  // each session at most once in a batch
  std::span<const TokenId> tokens;
  Origin origin = Origin::kPrompt;
  // Not null: receives the logits of every token, [tokens, vocab_size].
  std::vector<float>* all_logits = nullptr;
  // Whether session->logits() are to be those of the last token; if not, it has none afterwards.
  bool last_logits = true;
  // Not null, with last_logits: the next token is drawn in the pass, and the session then has no
  // logits. Where `drawn` stays empty the draw was not decided, for it hung on the last digits of a sum
  // or on more tokens than are looked at, and the session has its logits as without a request.
  const DrawRequest* draw = nullptr;
  std::optional<DrawnToken> drawn = std::nullopt;
  // Set where this item alone failed; neighbours are unaffected. After kNonFinite, a row that is not
  // finite, its session refuses further use; after kOutOfMemory, no memory for its state, the
  // session is as it was.
  std::optional<Error> error = std::nullopt;
};

class Engine : public std::enable_shared_from_this<Engine> {
 public:
  // Reads config.json, the safetensors files and generation_config.json of `dir`.
  // Throws Error{kBadModel, kIo, kOutOfMemory, kUsage, kUnsupported}, and Error{kDoesNotFit} where
  // the limit is below what the model needs.
  static std::shared_ptr<Engine> load(const std::filesystem::path& dir,
                                      const EngineOptions& options = {});
  // Where load() would put the weights; reads headers only. Throws as load() does.
  static MemoryPlan plan(const std::filesystem::path& dir, const EngineOptions& options = {});
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  const EngineInfo& info() const noexcept;
  // Bytes of weights brought into memory since load() by a plan that leaves some in the files,
  // wherever the system had them cached. May be called at any time.
  std::uint64_t paged_bytes() const;

  // A new empty timeline. It keeps the engine alive.
  Session new_session();

  // Advances every item's session by its tokens. A row's logits do not depend on the other items,
  // on the number of threads or on how a prompt is split over calls. One call at a time (others
  // wait). Throws Error{kUsage} for a token id outside the vocabulary, before anything is computed.
  void forward(std::span<BatchItem> items);

  struct Impl;

 private:
  explicit Engine(std::unique_ptr<Impl> impl);
  friend class Session;
  friend struct SessionAccess;
  friend class Snapshot;
  std::unique_ptr<Impl> impl_;
};

}  // namespace baltoro
