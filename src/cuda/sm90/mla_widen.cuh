// Tiles of latents in fp8 to tiles of bf16 in shared memory: the copy engine brings tiles of codes
// [64 tokens, 64 channels], the threads of a warpgroup put them under the 128-byte swizzle as bf16.
#pragma once

#include <cstdint>

#include "cuda/device/e4m3_pairs.cuh"
#include "cuda/device/word.cuh"
#include "cuda/sm90/mla_decode.cuh"
#include "cuda/sm90/tma.cuh"

namespace baltoro::cuda::sm90 {

// What a thread widens: eight channels of the rows row(0..3) of a tile. The 8 threads of a row write
// its 128 bytes, so that neither reads nor writes meet in a bank.
struct WidenPart {
  int lane, warp;  // of the warpgroup

  __device__ __forceinline__ WidenPart()
      : lane(static_cast<int>(threadIdx.x % 32)), warp(static_cast<int>(threadIdx.x % 128 / 32)) {}

  __device__ __forceinline__ int row(int i) const { return warp * 16 + i * 4 + lane / 8; }

  // The scales of the warp's rows, of which `scales` are the page's.
  __device__ __forceinline__ uint4 scales_of(const unsigned char* scales) const {
    return *reinterpret_cast<const uint4*>(scales + warp * 16);
  }
  // The power of two of row(i).
  __device__ __forceinline__ std::uint32_t multiplier(const uint4& scales, int i) const {
    return e4m3_multiplier(word_of(scales, i) >> (lane / 8 * 8) & 0xffu);
  }
  __device__ __forceinline__ uint2 codes(const unsigned char* tile, int i) const {
    return *reinterpret_cast<const uint2*>(tile + row(i) * 64 + lane % 8 * 8);
  }
  __device__ __forceinline__ void store(unsigned char* tile, int i, const uint4& eight) const {
    const int sixteen_bytes = (lane % 8) ^ (row(i) % 8);
    *reinterpret_cast<uint4*>(tile + row(i) * 128 + sixteen_bytes * 16) = eight;
  }
};

// Tiles 0..7 of a page come as pairs of tiles of codes, one of each half.
constexpr int kPairsOfPage = kValueTiles;

// One warpgroup: latents in fp8. Its first thread asks for codes kCodePairs pairs ahead in a segment,
// and for the side key.
template <int kN>
struct Widening {
  static constexpr int kCodes = kCodePairs<kN>;
  Shared<kN, true>& shared;
  const Decode& p;
  WidenPart part;
  Ring<kRing<kN, true>> ring;
  Ring<kCodes> codes;

  __device__ Widening(Shared<kN, true>& shared_memory, const Decode& params)
      : shared(shared_memory), p(params) {}

  __device__ __forceinline__ static bool leads() { return threadIdx.x == 0; }

  // The pair of tiles i, i + 4 of a page.
  __device__ __forceinline__ void ask(int slot, int page_id, int i) {
    arrive_expecting(&shared.CodeTiles<kCodes>::full[slot], 2 * kCodeTileBytes);
    for (int half = 0; half < 2; ++half) {
      copy_page_tile(shared.CodeTiles<kCodes>::tile[slot][half], p.latents,
                     (i + half * kValueTiles) * 64, page_id, &shared.CodeTiles<kCodes>::full[slot]);
    }
  }

  __device__ __forceinline__ void side_key(int page_id) {
    if (leads()) {
      wait(&shared.used[ring.slot], ring.parity ^ 1u);
      arrive_expecting(&shared.full[ring.slot], kTileBytes);
      copy_page_tile(shared.tile[ring.slot], p.sides, 0, page_id, &shared.full[ring.slot]);
    }
    ring = ring.ahead(1);
  }

  __device__ __forceinline__ void pair(const uint4& scales) {
    wait(&shared.CodeTiles<kCodes>::full[codes.slot], codes.parity);
    uint2 words[2][4];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        words[half][i] = part.codes(shared.CodeTiles<kCodes>::tile[codes.slot][half], i);
      }
    }
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const Ring<kRing<kN, true>> to = ring.ahead(half);
      wait(&shared.used[to.slot], to.parity ^ 1u);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        part.store(shared.tile[to.slot], i, widen_e4m3(words[half][i], part.multiplier(scales, i)));
      }
    }
    publish_stores();
    group_sync(kWidenBarrier, kGroup);
    if (leads()) {
      arrive(&shared.full[ring.slot]);
      arrive(&shared.full[ring.ahead(1).slot]);
    }
    ring = ring.ahead(2);
  }

  __device__ __forceinline__ void run(const Segment& segment, const std::int32_t* pages) {
    const unsigned char* scales_at = p.scales;
    const auto scales_of = [&](int page_id) {
      return part.scales_of(scales_at + page_id * kFp8Page.bytes());
    };
    const int num_pairs = (segment.end - segment.begin) * kPairsOfPage;
    if (leads()) {
      for (int i = 0; i < min(kCodes, num_pairs); ++i) {
        ask(codes.ahead(i).slot, pages[segment.begin + i / kPairsOfPage], i % kPairsOfPage);
      }
    }
    int page_id = pages[segment.begin];
    uint4 scales = scales_of(page_id);
    for (int i = segment.begin; i < segment.end; ++i) {
      const int next_id = pages[min(i + 1, segment.end - 1)];
      const uint4 next_scales = scales_of(next_id);
      side_key(page_id);
#pragma unroll 1
      for (int k = 0; k < kPairsOfPage; ++k) {
        pair(scales);
        const int ahead = (i - segment.begin) * kPairsOfPage + k + kCodes;
        if (leads() && ahead < num_pairs) {
          ask(codes.slot, pages[segment.begin + ahead / kPairsOfPage], ahead % kPairsOfPage);
        }
        codes = codes.ahead(1);
      }
      page_id = next_id;
      scales = next_scales;
    }
  }
};

}  // namespace baltoro::cuda::sm90
