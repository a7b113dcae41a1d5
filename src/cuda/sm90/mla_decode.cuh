// What the warpgroups of absorbed MLA decode (mla_decode.cu) share: sizes, shared memory, parameters.
#pragma once

#include <cstdint>
#include <type_traits>

#include "cuda/mla_split.cuh"
#include "cuda/sm90/tma.cuh"
#include "ops/latent_page.h"

namespace baltoro::cuda::sm90 {

constexpr int kRank = 512;
constexpr int kSide = 64;
constexpr int kWidth = kRank + kSide;
constexpr int kGroup = 128;           // threads of a warpgroup
constexpr int kThreads = 4 * kGroup;  // loads, scores, channels 0..255, channels 256..511
constexpr int kTiles = 9;             // of a page; the last is the side key
constexpr int kValueTiles = 4;        // of a page, a warpgroup
constexpr int kTileBytes = 64 * 64 * 2;
constexpr int kRowBytes = 128;
// Tiles in shared memory: as many as fit beside the queries of kN heads, and beside pairs of tiles of
// codes where latents are in fp8.
template <int kN, bool kFp8>
constexpr int kRing = kFp8 ? (kN >= 48   ? 14
                              : kN >= 32 ? 15
                                         : 18)
                           : (kN >= 48   ? 19
                              : kN >= 32 ? 22
                                         : 24);
template <int kN>
constexpr int kCodePairs = kN >= 48 ? 5 : 7;

enum NamedBarrier : int { kScoresBarrier = 1, kValuesBarrier, kWidenBarrier = 4 };

constexpr int kCodeTileBytes = 64 * 64;

// Pairs of tiles of codes.
template <int kPairs>
struct CodeTiles {
  alignas(1024) unsigned char tile[kPairs][2][kCodeTileBytes];
  std::uint64_t full[kPairs];
};

struct NoCodes {};
template <int kN, bool kFp8>
struct Shared : std::conditional_t<kFp8, CodeTiles<kCodePairs<kN>>, NoCodes> {
  alignas(1024) unsigned char query[kTiles][kN * kRowBytes];
  alignas(1024) unsigned char probability[2][kN * kRowBytes];  // [head][key]
  alignas(1024) unsigned char tile[kRing<kN, kFp8>][kTileBytes];
  float largest[kN];
  float shrink[2][kN];
  float by_warp[4][kN];
  int rescales[2];
  std::uint64_t query_full, query_used;
  std::uint64_t probability_full[2], probability_used[2];
  std::uint64_t full[kRing<kN, kFp8>], used[kRing<kN, kFp8>];
};
constexpr std::size_t kMostShared = 232448;
static_assert(sizeof(Shared<48, false>) <= kMostShared && sizeof(Shared<48, true>) <= kMostShared &&
              sizeof(Shared<32, false>) <= kMostShared && sizeof(Shared<32, true>) <= kMostShared &&
              sizeof(Shared<16, false>) <= kMostShared && sizeof(Shared<16, true>) <= kMostShared);

struct Decode {
  CUtensorMap latents;  // [pages * 64, 576], or codes [pages, 64, 512]
  CUtensorMap queries;  // [R * H, 576]
  SplitPlan plan;
  const std::int32_t* pages;
  float* partial;
  float2* partial_sum;
  float scale;  // of the scores, times log2(e)
  int num_heads;
  // In fp8.
  CUtensorMap sides;            // [pages, 64, 64]
  const unsigned char* scales;  // of the first page
};

constexpr LatentPage kFp8Page(MlaShape{.rope_dim = kSide, .kv_rank = kRank});

// The tiles of a page in the order of the ring: one of each half in turn, behind them the side key, or
// before them where they take longer, being widened.
template <bool kFp8>
constexpr int kSidePlace = kFp8 ? 0 : kTiles - 1;
template <bool kFp8>
constexpr int kFirstPlace = kFp8 ? 1 : 0;
template <bool kFp8>
__device__ __forceinline__ int tile_in_order(int i) {
  const int t = i - kFirstPlace<kFp8>;
  return i == kSidePlace<kFp8> ? kTiles - 1 : t % 2 * 4 + t / 2;
}

// A place in a ring of kSize, and the parity of its phase.
template <int kSize>
struct Ring {
  int slot = 0;
  std::uint32_t parity = 0;
  __device__ __forceinline__ Ring ahead(int count) const {  // count < kSize
    const int at = slot + count;
    return at < kSize ? Ring{at, parity} : Ring{at - kSize, parity ^ 1u};
  }
};

}  // namespace baltoro::cuda::sm90
