// A page of an MLA cache in fp8: the latents of kBlockTokens tokens as e4m3 codes, then their side
// keys as bf16, then a scale a token:
//   codes [kBlockTokens, Ckv]   side [kBlockTokens, Dr]   scales [kBlockTokens]
// A latent is rounded once, when its token is written: the scale is that of its largest magnitude
// (core/e4m3.h), so that a value read, code times scale, is a bf16 number. A latent with a value that
// is not finite reads as NaN. Also compiled for GPUs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/e4m3_code.h"
#include "ops/batch.h"
#include "ops/mla.h"

namespace baltoro {

struct LatentPage {
  std::int64_t rank = 0;  // Ckv
  std::int64_t side = 0;  // Dr

  constexpr LatentPage() = default;
  constexpr explicit LatentPage(const MlaShape& shape)
      : rank(shape.kv_rank), side(shape.rope_dim) {}

  constexpr std::int64_t bytes() const { return kBlockTokens * (rank + 2 * side + 1); }
  // From a page's first byte on.
  constexpr std::int64_t codes_at(std::int64_t token) const { return token * rank; }
  constexpr std::int64_t side_at(std::int64_t token) const {
    return kBlockTokens * rank + token * 2 * side;
  }
  constexpr std::int64_t scale_at(std::int64_t token) const {
    return kBlockTokens * (rank + 2 * side) + token;
  }
};

// Host memory. [c | s] of a token into its place in a page, and as the page holds it.
void write_latent(const LatentPage& layout, std::byte* page, std::int64_t token,
                  std::span<const float> row);
std::vector<float> read_latent(const LatentPage& layout, const std::byte* page, std::int64_t token);

}  // namespace baltoro
