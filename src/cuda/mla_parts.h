// The steps of gated MLA that several kernels share. All serve the rows of one origin and leave the
// others alone.
#pragma once

#include "cuda/context.h"
#include "ops/mla.h"

namespace baltoro::cuda {

inline bool has_rows_of(const BatchView& batch, Origin origin) {
  for (const SequenceRows& rows : batch.sequences) {
    if (rows.origin == origin) return true;
  }
  return false;
}

// Latent norm, rotation of the side key, cache write of the new rows. Attention comes after it.
void mla_write_cache(Context& context, const MlaArgs& args, Origin origin);

// The fast kernels read kv_b in 16-byte vectors. Where it lies otherwise (weights that the engine
// placed do not) it is copied into scratch memory first: bytes for that, and the view to read.
std::size_t aligned_kv_b_bytes(const MlaArgs& args);
WeightView aligned_kv_b(Context& context, const MlaArgs& args);

// Attention in the absorbed form and the output gate, any shape and format: one block per row and
// head walks the pages in order. Every row's bits depend on that row and its cache alone.
void mla_attend_plain(Context& context, const MlaArgs& args, Origin origin);

}  // namespace baltoro::cuda
