// The interface between the model and a device: about ten coarse ops, cut where a fast backend
// fuses. ReferenceBackend, CpuBackend and CudaBackend are peers; any model runs end to end on each.
// Call the checked entry functions of the op headers, not these methods: kernels rely on the
// contract that the entries check.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string_view>

#include "baltoro/types.h"
#include "core/buffer.h"
#include "core/dtype.h"

namespace baltoro {

struct BatchView;
struct ExpertWeights;
struct EmbedArgs;
struct LinearArgs;
struct MixNormArgs;
struct KdaMixArgs;
struct MlaArgs;
struct GluMlpArgs;
struct RouteArgs;
struct ExpertMlpArgs;
struct HeadArgs;
struct HeadDrawArgs;

// One thread at a time. Scratch memory grows on first use of a size and is kept.
class Backend {
 public:
  virtual ~Backend() = default;

  virtual std::string_view name() const = 0;  // "reference", "cpu/avx2", "cuda:0"
  virtual int num_threads() const = 0;
  virtual Activations activations() const = 0;
  // How activations are stored. Host backends store f32 in both modes (bf16 values in f32 words).
  virtual DType activation_dtype() const = 0;
  // How the MLA cache is stored: kBf16 or kF32.
  virtual DType cache_dtype() const = 0;

  // Whether ops read and write ordinary host memory; else weights, activations and state must come
  // from allocate().
  virtual bool uses_host_memory() const = 0;
  // Zero-filled memory of the device.
  virtual Buffer allocate(std::size_t bytes, const char* purpose) = 0;
  // Zero-filled host memory that ops reach as well. Results are there after synchronize().
  virtual Buffer allocate_shared(std::size_t bytes, const char* purpose) = 0;
  // Between memory of host and device in any direction. In order with the ops; host memory may be
  // used again when the call returns.
  virtual void copy(void* to, const void* from, std::size_t bytes) = 0;
  // The same between memory of allocate() and allocate_shared(), without waiting: it happens in order
  // with the ops, and may be recorded with them.
  virtual void copy_in_order(void* to, const void* from, std::size_t bytes) = 0;
  // Calls `work` on a thread of the host, in order with the ops; may be recorded with them. It must
  // not call this backend. What it throws is thrown by synchronize().
  virtual void run_on_host(std::function<void()> work) = 0;
  virtual void clear(void* data, std::size_t bytes) = 0;
  virtual void synchronize() = 0;
  // Of the device's own memory; nothing where ops use host memory.
  virtual std::optional<std::uint64_t> free_memory() const = 0;
  // What expert_mlp reads of a layer's experts in device memory, made once (ExpertMlpArgs::table);
  // empty where it needs none.
  virtual Buffer expert_table(std::span<const ExpertWeights> experts) = 0;
  // Runs the ops of one pass over the batch. A device may record them and, for a later batch of the
  // same form, repeat the record instead of calling `ops`: all that they read and write must then
  // be at the same addresses. allocate() ends the validity of all records.
  virtual void run_pass(const BatchView& batch, const std::function<void()>& ops) = 0;

  virtual void embed(const EmbedArgs& args) = 0;
  virtual void linear(const LinearArgs& args) = 0;
  virtual void mix_norm(const MixNormArgs& args) = 0;
  virtual void kda_mix(const KdaMixArgs& args) = 0;
  virtual void mla_prefill(const MlaArgs& args) = 0;
  virtual void mla_decode(const MlaArgs& args) = 0;
  virtual void glu_mlp(const GluMlpArgs& args) = 0;
  virtual void route(const RouteArgs& args) = 0;
  virtual void expert_mlp(const ExpertMlpArgs& args) = 0;
  virtual void head(const HeadArgs& args) = 0;
  virtual void head_draw(const HeadDrawArgs& args) = 0;
  // Logits of row `index` of the last head_draw(), to host memory. Waits.
  virtual void fetch_logits(std::size_t index, std::span<float> to) = 0;
};

}  // namespace baltoro
