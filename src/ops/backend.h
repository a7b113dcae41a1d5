// The interface between the model and a device: about ten coarse ops, cut where a fast backend
// fuses. ReferenceBackend, CpuBackend and CudaBackend are peers; any model runs end to end on each.
// Call the checked entry functions of the op headers, not these methods: kernels rely on the
// contract that the entries check.
#pragma once

#include <cstdint>
#include <string_view>

#include "baltoro/types.h"
#include "core/buffer.h"
#include "core/dtype.h"

namespace baltoro {

struct EmbedArgs;
struct LinearArgs;
struct MixNormArgs;
struct KdaMixArgs;
struct MlaArgs;
struct GluMlpArgs;
struct RouteArgs;
struct ExpertMlpArgs;
struct HeadArgs;

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

  virtual Buffer allocate(std::size_t bytes, const char* purpose) = 0;
  virtual void copy(void* to, const void* from, std::size_t bytes) = 0;
  virtual void synchronize() = 0;

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
};

}  // namespace baltoro
