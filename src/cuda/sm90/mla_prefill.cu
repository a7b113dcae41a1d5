// Expanded MLA prefill on Hopper: latents in fp8 are widened, then keys and values of a group of heads
// are raised from the latents into scratch memory, then flash attention: two warpgroups of 64 query rows each walk the
// keys in tiles of 128, a warp copies ahead. A row's bits depend on its own keys alone, walked from
// position 0, so that they do not change with the split of a prompt or with neighbours.
#include <algorithm>
#include <cmath>

#include "cuda/device/activation.cuh"
#include "cuda/device/e4m3_pairs.cuh"
#include "cuda/launch.cuh"
#include "cuda/mla_parts.h"
#include "cuda/mla_prefill.h"
#include "cuda/sm90/tensor_map.h"
#include "cuda/sm90/tma.cuh"
#include "cuda/sm90/wgmma.cuh"
#include "ops/latent_page.h"

namespace baltoro::cuda::sm90 {
namespace {

constexpr int kNope = 128, kSide = 64, kKey = kNope + kSide, kValue = 128, kRank = 512;
constexpr int kWidth = kRank + kSide;
constexpr int kPage = static_cast<int>(kBlockTokens);
constexpr int kTileKeys = 128;
constexpr int kTileRows = 128;
constexpr int kGroup = 128;
constexpr int kThreads = 3 * kGroup;       // copies, rows 0..63, rows 64..127
constexpr int kColumnTile = 64 * 128 * 2;  // bytes of 64 columns of 128 rows
// Keys and values of as many heads as fit are raised at once, and of at least one.
constexpr std::int64_t kExpandedBytes = 640ll << 20;

// One sequence of prompt rows, in batch order.
struct Prompt {
  std::int64_t start_pos;
  std::int32_t first_row, num_rows;
  std::int32_t first_page;  // in DeviceBatch::pages
  std::int32_t num_pages;
  std::int32_t first_pair;  // pairs of pages of the prompts before it
  std::int32_t first_tile;  // query tiles of the prompts before it
};

// One thread: sequences are few beside the rows of a prompt.
__global__ void list_prompts_kernel(DeviceBatch batch, Prompt* prompts) {
  int count = 0, pairs = 0, tiles = 0;
  for (int s = 0; s < batch.num_sequences; ++s) {
    const DeviceSequence sequence = batch.sequences[s];
    if (sequence.is_generated != 0) continue;
    const auto pages =
        static_cast<int>((sequence.start_pos + sequence.num_rows + kPage - 1) / kPage);
    prompts[count++] = {sequence.start_pos,
                        sequence.first_row,
                        sequence.num_rows,
                        sequence.first_page,
                        pages,
                        pairs,
                        tiles};
    pairs += (pages + 1) / 2;
    tiles += (sequence.num_rows + kTileRows - 1) / kTileRows;
  }
}

template <typename Before>
__device__ __forceinline__ int prompt_of(int count, int index, Before before) {
  int low = 0, high = count;
  while (high - low > 1) {
    const int middle = (low + high) / 2;
    (before(middle) <= index ? low : high) = middle;
  }
  return low;
}

struct Prefill {
  CUtensorMap latents;  // [pages * 64, 576]
  CUtensorMap weights;  // [H * 256, 512]
  CUtensorMap queries;  // [M, H * 192]
  CUtensorMap keys;     // [heads at once * tokens, 192]
  CUtensorMap values;   // [heads at once * tokens, 128]
  const Prompt* prompts;
  int num_prompts;
  int num_tiles;
  const std::int32_t* pages;
  const bf16* cache;  // pages of the whole cache, or those of the prompts in order, widened
  bool widened;
  bf16* key_rows;
  bf16* value_rows;
  std::int64_t tokens;  // of all prompts, each padded to pairs of pages
  const bf16* gate;     // or null
  bf16* out;
  int num_heads;
  int first_head;  // of those at once
  float scale;     // times log2(e)
};

constexpr int kWidenThreads = 256;

// One block: one page of a prompt from fp8 into `to`, [pairs, 2 kPage, kWidth]. Rows behind the last
// hold anything, as they do in the cache.
__global__ void __launch_bounds__(kWidenThreads)
    widen_kernel(Prefill p, const unsigned char* cache, LatentPage layout, bf16* to) {
  const int pair = static_cast<int>(blockIdx.x) / 2;
  const Prompt prompt =
      p.prompts[prompt_of(p.num_prompts, pair, [&](int i) { return p.prompts[i].first_pair; })];
  const int page = static_cast<int>(blockIdx.x) - 2 * prompt.first_pair;
  if (page >= prompt.num_pages) return;
  const unsigned char* from = cache + p.pages[prompt.first_page + page] * layout.bytes();
  bf16* const rows = to + static_cast<std::int64_t>(blockIdx.x) * kPage * kWidth;
  constexpr int kVectors = kWidth / 8;
  for (int i = static_cast<int>(threadIdx.x); i < kPage * kVectors; i += kWidenThreads) {
    const int token = i / kVectors;
    const int c = i % kVectors * 8;
    uint4 eight;
    if (c < kRank) {
      const auto codes = *reinterpret_cast<const uint2*>(from + layout.codes_at(token) + c);
      eight = widen_e4m3(codes, e4m3_multiplier(from[layout.scale_at(token)]));
    } else {
      eight = *reinterpret_cast<const uint4*>(from + layout.side_at(token) + (c - kRank) * 2);
    }
    *reinterpret_cast<uint4*>(rows + token * kWidth + c) = eight;
  }
}

constexpr int kExpandStages = 4;
constexpr int kExpandSteps = kRank / 64;
constexpr int kPadded = kNope + kValue + 8;  // of a staged output row, without bank conflicts

struct ExpandShared {
  struct Stage {
    unsigned char latents[kColumnTile];
    unsigned char weights[2 * kColumnTile];
  };
  alignas(1024) Stage stage[kExpandStages];
  std::uint64_t full[kExpandStages], used[kExpandStages];
};
static_assert(sizeof(ExpandShared) <= 232448 && kTileKeys * kPadded * 2 <= kExpandStages * 49152);

__device__ __forceinline__ void load_expand(ExpandShared& shared, const Prefill& p, int head,
                                            const int (&page)[2]) {
  for (int k = 0; k < kExpandSteps; ++k) {
    const int slot = k % kExpandStages;
    auto& stage = shared.stage[slot];
    wait(&shared.used[slot], (k / kExpandStages + 1) & 1);
    arrive_expecting(&shared.full[slot], 3 * kColumnTile);
    for (int i = 0; i < 2; ++i) {
      copy_tile(stage.latents + i * kColumnTile / 2, p.latents, k * 64, page[i] * kPage,
                &shared.full[slot]);
    }
    copy_tile(stage.weights, p.weights, k * 64, head * (kNope + kValue), &shared.full[slot]);
  }
}

// One block: keys and values of one head for a pair of pages of one prompt.
__global__ void __launch_bounds__(kThreads, 1) expand_kernel(const __grid_constant__ Prefill p) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  extern __shared__ __align__(1024) unsigned char memory[];
  auto& shared = *reinterpret_cast<ExpandShared*>(memory);
  if (threadIdx.x == 0) {
    for (int i = 0; i < kExpandStages; ++i) {
      barrier_init(&shared.full[i], 1);
      barrier_init(&shared.used[i], 8);
    }
    barrier_init_fence();
  }
  __syncthreads();
  const int pair = static_cast<int>(blockIdx.x);
  const int head = p.first_head + static_cast<int>(blockIdx.y);
  const Prompt prompt =
      p.prompts[prompt_of(p.num_prompts, pair, [&](int i) { return p.prompts[i].first_pair; })];
  const int first_page = 2 * (pair - prompt.first_pair);
  const auto page_at = [&](int i) {
    return p.widened ? 2 * prompt.first_pair + i : p.pages[prompt.first_page + i];
  };
  const int page[2] = {page_at(first_page), page_at(min(first_page + 1, prompt.num_pages - 1))};
  // Keys behind the last are zero: 0 * NaN is NaN.
  const auto valid = static_cast<int>(
      min(static_cast<std::int64_t>(kTileKeys),
          prompt.start_pos + prompt.num_rows - static_cast<std::int64_t>(first_page) * kPage));
  const int group = static_cast<int>(threadIdx.x / kGroup) - 1;
  if (group < 0) {
    give_registers<40>();
    if (threadIdx.x == 0) load_expand(shared, p, head, page);
  } else {
    take_registers<216>();
    const int lane = static_cast<int>(threadIdx.x % 32);
    const int warp = static_cast<int>(threadIdx.x % kGroup / 32);
    float keys[kNope / 2], values[kValue / 2];
    for (int k = 0; k < kExpandSteps; ++k) {
      const int slot = k % kExpandStages;
      wait(&shared.full[slot], (k / kExpandStages) & 1);
      const auto& stage = shared.stage[slot];
      const std::uint64_t a =
          tile_descriptor(shared_address(stage.latents) + group * kColumnTile / 2);
      const std::uint64_t b = tile_descriptor(shared_address(stage.weights));
      wgmma_fence();
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        Wgmma<128>::multiply(keys, a + 2 * i, b + 2 * i, k + i > 0);
        Wgmma<128>::multiply(values, a + 2 * i, b + (kColumnTile >> 4) + 2 * i, k + i > 0);
      }
      wgmma_commit();
      wgmma_wait<0>();
      if (lane == 0) arrive(&shared.used[slot]);
    }
    hold(keys);
    hold(values);
    // Both warpgroups have read all stages: they become the staged output.
    group_sync(1, 2 * kGroup);
    auto* staged = reinterpret_cast<bf16*>(memory);
    const int row = group * 64 + warp * 16 + lane / 4;
#pragma unroll
    for (int e = 0; e < kNope / 2; e += 2) {
      const int at = (row + e % 4 / 2 * 8) * kPadded + e / 4 * 8 + lane % 4 * 2;
      *reinterpret_cast<__nv_bfloat162*>(staged + at) = __floats2bfloat162_rn(keys[e], keys[e + 1]);
      *reinterpret_cast<__nv_bfloat162*>(staged + at + kNope) =
          __floats2bfloat162_rn(values[e], values[e + 1]);
    }
    group_sync(1, 2 * kGroup);
    const std::int64_t first = static_cast<std::int64_t>(blockIdx.y) * p.tokens +
                               static_cast<std::int64_t>(pair) * kTileKeys;
    constexpr int kVectors = (kKey + kValue) / 8;  // of a key row and a value row
    for (int i = static_cast<int>(threadIdx.x) - kGroup; i < kTileKeys * kVectors;
         i += 2 * kGroup) {
      const int r = i / kVectors;
      const int c = i % kVectors * 8;  // keys, values, then the side key
      uint4 eight = make_uint4(0, 0, 0, 0);
      if (r < valid) {
        const std::int64_t cached = static_cast<std::int64_t>(page[r / kPage]) * kPage + r % kPage;
        eight = c < kNope + kValue ? *reinterpret_cast<const uint4*>(staged + r * kPadded + c)
                                   : *reinterpret_cast<const uint4*>(p.cache + cached * kWidth +
                                                                     kRank + c - kNope - kValue);
      }
      bf16* to = c < kNope            ? p.key_rows + (first + r) * kKey + c
                 : c < kNope + kValue ? p.value_rows + (first + r) * kValue + c - kNope
                                      : p.key_rows + (first + r) * kKey + c - kValue;
      *reinterpret_cast<uint4*>(to) = eight;
    }
  }
#endif
}

constexpr int kStages = 2;
enum NamedBarrier : int { kTurnBarrier = 1 };  // and one more, of the other warpgroup

struct AttendShared {
  alignas(1024) unsigned char query[3][kColumnTile];
  alignas(1024) unsigned char key[kStages][3][kColumnTile];
  alignas(1024) unsigned char value[kStages][2][kColumnTile];
  std::uint64_t query_full;
  std::uint64_t key_full[kStages], key_used[kStages], value_full[kStages], value_used[kStages];
};
static_assert(sizeof(AttendShared) <= 232448);

__device__ __forceinline__ float exp2_approximate(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

__device__ __forceinline__ void load_attend(AttendShared& shared, const Prefill& p, int head,
                                            const Prompt& prompt, int row, int num_tiles) {
  arrive_expecting(&shared.query_full, 3 * kColumnTile);
  for (int i = 0; i < 3; ++i) {
    copy_tile(shared.query[i], p.queries, (p.first_head + head) * kKey + i * 64, row,
              &shared.query_full);
  }
  const auto first = static_cast<std::int32_t>(
      head * p.tokens + static_cast<std::int64_t>(prompt.first_pair) * kTileKeys);
  for (int j = 0; j < num_tiles; ++j) {
    const int slot = j % kStages;
    const std::uint32_t parity = (j / kStages + 1) & 1;
    wait(&shared.key_used[slot], parity);
    arrive_expecting(&shared.key_full[slot], 3 * kColumnTile);
    for (int i = 0; i < 3; ++i) {
      copy_tile(shared.key[slot][i], p.keys, i * 64, first + j * kTileKeys, &shared.key_full[slot]);
    }
    wait(&shared.value_used[slot], parity);
    arrive_expecting(&shared.value_full[slot], 2 * kColumnTile);
    for (int i = 0; i < 2; ++i) {
      copy_tile(shared.value[slot][i], p.values, i * 64, first + j * kTileKeys,
                &shared.value_full[slot]);
    }
  }
}

// 64 query rows of one warpgroup. A thread holds two of them, lane / 4 and 8 further.
struct Rows {
  AttendShared& shared;
  const Prefill& p;
  int group;
  float largest[2] = {-INFINITY, -INFINITY};  // base 2
  float sum[2] = {0, 0};                      // of this thread's columns
  float out[kValue / 2];
  std::uint32_t probability[kTileKeys / 16][4];

  __device__ Rows(AttendShared& shared_memory, const Prefill& params, int which)
      : shared(shared_memory), p(params), group(which) {}

  __device__ __forceinline__ void multiply_keys(float (&s)[kTileKeys / 2], int slot) {
    wgmma_fence();
#pragma unroll
    for (int i = 0; i < 3; ++i) {
      const std::uint64_t a =
          tile_descriptor(shared_address(shared.query[i]) + group * kColumnTile / 2);
      const std::uint64_t b = tile_descriptor(shared_address(shared.key[slot][i]));
#pragma unroll
      for (int k = 0; k < 4; ++k) Wgmma<128>::multiply(s, a + 2 * k, b + 2 * k, i + k > 0);
    }
    wgmma_commit();
  }

  __device__ __forceinline__ void multiply_values(int slot, bool sum_up) {
    const std::uint64_t b = tile_descriptor(shared_address(shared.value[slot][0]), kColumnTile);
    wgmma_fence();
#pragma unroll
    for (int k = 0; k < kTileKeys / 16; ++k) {
      Wgmma<128>::multiply_registers_transposed_b(out, probability[k], b + k * (16 * 128 >> 4),
                                                  sum_up || k > 0);
    }
    wgmma_commit();
  }

  // Scores to probabilities, in place; returns by how much the sums of before shrink.
  __device__ __forceinline__ float2 softmax(float (&s)[kTileKeys / 2], int visible) {
    // Row i sees the first visible + 8 i keys of the tile.
    if (visible < kTileKeys) {
      const int column = static_cast<int>(threadIdx.x % 4) * 2;
#pragma unroll
      for (int e = 0; e < kTileKeys / 2; ++e) {
        if (e / 4 * 8 + column + e % 2 >= visible + e % 4 / 2 * 8) s[e] = -INFINITY;
      }
    }
    float shrink[2];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      float most = s[2 * i];
#pragma unroll
      for (int e = 0; e < kTileKeys / 2; e += 4) {
        most = fmaxf(most, fmaxf(s[e + 2 * i], s[e + 2 * i + 1]));
      }
      most = fmaxf(most, __shfl_xor_sync(0xffffffffu, most, 1));
      most = fmaxf(most, __shfl_xor_sync(0xffffffffu, most, 2));
      const float raised = fmaxf(largest[i], most * p.scale);
      shrink[i] = exp2_approximate(largest[i] - raised);
      largest[i] = raised;
      float total = 0;
#pragma unroll
      for (int e = 0; e < kTileKeys / 2; e += 4) {
#pragma unroll
        for (int c = 0; c < 2; ++c) {
          float& x = s[e + 2 * i + c];
          x = exp2_approximate(x * p.scale - raised);
          total += x;
        }
      }
      sum[i] = sum[i] * shrink[i] + total;
    }
    return make_float2(shrink[0], shrink[1]);
  }

  __device__ __forceinline__ void pack(const float (&s)[kTileKeys / 2]) {
#pragma unroll
    for (int k = 0; k < kTileKeys / 16; ++k) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const __nv_bfloat162 pair = __floats2bfloat162_rn(s[8 * k + 2 * i], s[8 * k + 2 * i + 1]);
        probability[k][i] = *reinterpret_cast<const std::uint32_t*>(&pair);
      }
    }
  }

  __device__ __forceinline__ void shrink_out(float2 shrink) {
#pragma unroll
    for (int e = 0; e < kValue / 2; ++e) out[e] *= e % 4 < 2 ? shrink.x : shrink.y;
  }

  // `count` rows from batch row `first` on.
  __device__ __forceinline__ void write(int head, std::int64_t first, int count) {
    const int lane = static_cast<int>(threadIdx.x % 32);
    const int warp = static_cast<int>(threadIdx.x % kGroup / 32);
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      float total = sum[i];
      total += __shfl_xor_sync(0xffffffffu, total, 1);
      total += __shfl_xor_sync(0xffffffffu, total, 2);
      const float scale = 1.0f / total;
      const int row = group * 64 + warp * 16 + lane / 4 + 8 * i;
      if (row >= count) continue;
      const std::int64_t at =
          ((first + row) * p.num_heads + p.first_head + head) * kValue + lane % 4 * 2;
#pragma unroll
      for (int g = 0; g < kValue / 8; ++g) {
        float2 pair = {round_as<bf16>(out[4 * g + 2 * i] * scale),
                       round_as<bf16>(out[4 * g + 2 * i + 1] * scale)};
        if (p.gate != nullptr) {
          const float2 gate =
              __bfloat1622float2(*reinterpret_cast<const __nv_bfloat162*>(p.gate + at + g * 8));
          pair.x *= round_as<bf16>(sigmoid(gate.x));
          pair.y *= round_as<bf16>(sigmoid(gate.y));
        }
        *reinterpret_cast<__nv_bfloat162*>(p.out + at + g * 8) =
            __floats2bfloat162_rn(pair.x, pair.y);
      }
    }
  }
};

// The two warpgroups take turns in starting products, so that one's softmax runs beside the
// other's products.
__device__ __forceinline__ void await_turn(int group) {
  group_sync(kTurnBarrier + group, 2 * kGroup);
}
__device__ __forceinline__ void pass_turn(int group) {
  group_arrive(kTurnBarrier + 1 - group, 2 * kGroup);
}

__device__ __forceinline__ void attend_rows(AttendShared& shared, const Prefill& p, int group,
                                            std::int64_t first_position, int num_tiles,
                                            Rows& rows) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  const int warp = static_cast<int>(threadIdx.x % kGroup / 32);
  // Keys of tile 0 that this thread's first row sees.
  const std::int64_t sees = first_position + group * 64 + warp * 16 + lane / 4 + 1;
  const auto visible = [&](int tile) {
    const std::int64_t left = sees - static_cast<std::int64_t>(tile) * kTileKeys;
    return static_cast<int>(min(left, static_cast<std::int64_t>(kTileKeys)));
  };
  float s[kTileKeys / 2];
  wait(&shared.query_full, 0);
  wait(&shared.key_full[0], 0);
  if (group == 0) pass_turn(1);
  await_turn(group);
  rows.multiply_keys(s, 0);
  pass_turn(group);
  wgmma_wait<0>();
  hold(s);
  if (lane == 0) arrive(&shared.key_used[0]);
  rows.softmax(s, visible(0));
  rows.pack(s);
#pragma unroll
  for (int e = 0; e < kValue / 2; ++e) rows.out[e] = 0;
  for (int j = 1; j < num_tiles; ++j) {
    const int slot = j % kStages;
    const int before = (j - 1) % kStages;
    wait(&shared.key_full[slot], (j / kStages) & 1);
    wait(&shared.value_full[before], ((j - 1) / kStages) & 1);
    await_turn(group);
    rows.multiply_keys(s, slot);
    rows.multiply_values(before, true);
    pass_turn(group);
    wgmma_wait<1>();
    hold(s);
    if (lane == 0) arrive(&shared.key_used[slot]);
    const float2 shrink = rows.softmax(s, visible(j));
    wgmma_wait<0>();
    hold(rows.out);
    if (lane == 0) arrive(&shared.value_used[before]);
    rows.shrink_out(shrink);
    rows.pack(s);
  }
  const int last = (num_tiles - 1) % kStages;
  wait(&shared.value_full[last], ((num_tiles - 1) / kStages) & 1);
  rows.multiply_values(last, true);
  wgmma_wait<0>();
  hold(rows.out);
}

// One block: 128 rows of one prompt and one head. Late tiles, which see most keys, come first.
__global__ void __launch_bounds__(kThreads, 1) attend_kernel(const __grid_constant__ Prefill p) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  extern __shared__ __align__(1024) unsigned char memory[];
  auto& shared = *reinterpret_cast<AttendShared*>(memory);
  if (threadIdx.x == 0) {
    barrier_init(&shared.query_full, 1);
    for (int i = 0; i < kStages; ++i) {
      barrier_init(&shared.key_full[i], 1);
      barrier_init(&shared.value_full[i], 1);
      barrier_init(&shared.key_used[i], 8);
      barrier_init(&shared.value_used[i], 8);
    }
    barrier_init_fence();
  }
  __syncthreads();
  const int head = static_cast<int>(blockIdx.x) / p.num_tiles;
  const int tile = p.num_tiles - 1 - static_cast<int>(blockIdx.x) % p.num_tiles;
  const Prompt prompt =
      p.prompts[prompt_of(p.num_prompts, tile, [&](int i) { return p.prompts[i].first_tile; })];
  const int offset = (tile - prompt.first_tile) * kTileRows;
  const int count = min(kTileRows, prompt.num_rows - offset);
  const std::int64_t first_position = prompt.start_pos + offset;
  const auto num_tiles = static_cast<int>((first_position + count + kTileKeys - 1) / kTileKeys);
  const int group = static_cast<int>(threadIdx.x / kGroup) - 1;
  if (group < 0) {
    give_registers<24>();
    if (threadIdx.x == 0)
      load_attend(shared, p, head, prompt, prompt.first_row + offset, num_tiles);
  } else {
    take_registers<240>();
    Rows rows(shared, p, group);
    attend_rows(shared, p, group, first_position, num_tiles, rows);
    rows.write(head, prompt.first_row + offset, count);
  }
#endif
}

// What the host knows of the prompts of a batch.
struct PromptCounts {
  int prompts = 0, pairs = 0, tiles = 0;
};
PromptCounts count_prompts(const BatchView& batch) {
  PromptCounts counts;
  for (const SequenceRows& rows : batch.sequences) {
    if (rows.origin != Origin::kPrompt) continue;
    ++counts.prompts;
    counts.pairs += static_cast<int>(ceil_div(rows.start_pos + rows.num_rows, 2 * kPage));
    counts.tiles += static_cast<int>(ceil_div(rows.num_rows, kTileRows));
  }
  return counts;
}

}  // namespace

bool serves_mla_prefill(const Context& context, const MlaArgs& args) {
  const MlaShape& shape = args.shape;
  return context.device.is_hopper() && shape.kind == MlaKind::kLatent && shape.kv_rank == kRank &&
         shape.rope_dim == kSide && shape.nope_dim == kNope && shape.v_head_dim == kValue &&
         context.activation == DType::kBf16 && args.kv_b.format == WeightFormat::kBf16 &&
         !args.rope_theta;
}

void mla_prefill(Context& context, const MlaArgs& args) {
  const DeviceBatch batch = context.stage.batch(args.batch);
  const PromptCounts counts = count_prompts(args.batch);
  const std::int64_t heads = args.shape.num_heads;
  const std::int64_t tokens = static_cast<std::int64_t>(counts.pairs) * kTileKeys;
  const std::int64_t at_once =
      std::clamp<std::int64_t>(kExpandedBytes / (tokens * (kKey + kValue) * 2), 1, heads);
  const bool widens = args.cache.dtype == DType::kE4m3;
  Scratch& scratch = context.scratch;
  scratch.begin(aligned_kv_b_bytes(args) + Scratch::bytes_of<Prompt>(counts.prompts) +
                Scratch::bytes_of<bf16>(at_once * tokens * kKey) +
                Scratch::bytes_of<bf16>(at_once * tokens * kValue) +
                Scratch::bytes_of<bf16>(widens ? tokens * kWidth : 0));
  auto* prompts = scratch.take<Prompt>(counts.prompts);
  Prefill p{};
  p.prompts = prompts;
  p.num_prompts = counts.prompts;
  p.num_tiles = counts.tiles;
  p.pages = batch.pages;
  p.widened = widens;
  bf16* const wide = widens ? scratch.take<bf16>(tokens * kWidth) : nullptr;
  p.cache = widens ? wide : static_cast<const bf16*>(args.cache.data);
  p.key_rows = scratch.take<bf16>(at_once * tokens * kKey);
  p.value_rows = scratch.take<bf16>(at_once * tokens * kValue);
  p.tokens = tokens;
  p.gate = static_cast<const bf16*>(args.gate.data);
  p.out = static_cast<bf16*>(args.out.data);
  p.num_heads = static_cast<int>(heads);
  p.scale = static_cast<float>(1.4426950408889634 / std::sqrt(static_cast<double>(kKey)));
  p.latents =
      tile_map(p.cache, widens ? tokens : args.cache.num_pages * kPage, kWidth, kWidth, kPage);
  p.weights =
      tile_map(aligned_kv_b(context, args).data, args.kv_b.rows, kRank, kRank, kNope + kValue);
  p.queries = tile_map(args.q.data, args.q.rows(), heads * kKey, heads * kKey, kTileRows);
  p.keys = tile_map(p.key_rows, at_once * tokens, kKey, kKey, kTileKeys);
  p.values = tile_map(p.value_rows, at_once * tokens, kValue, kValue, kTileKeys);
  launch({"mla_prefill: list the prompts", 1, 1, 0, context.stream}, list_prompts_kernel, batch,
         prompts);
  if (widens) {
    launch({"mla_prefill: widen the latents", static_cast<unsigned>(2 * counts.pairs),
            kWidenThreads, 0, context.stream},
           widen_kernel, p, static_cast<const unsigned char*>(args.cache.data),
           LatentPage(args.shape), wide);
  }
  for (std::int64_t head = 0; head < heads; head += at_once) {
    const auto group = static_cast<unsigned>(std::min(at_once, heads - head));
    p.first_head = static_cast<int>(head);
    launch({"mla_prefill: raise keys and values", dim3(static_cast<unsigned>(counts.pairs), group),
            kThreads, sizeof(ExpandShared), context.stream},
           expand_kernel, p);
    launch({"mla_prefill: attend", group * static_cast<unsigned>(counts.tiles), kThreads,
            sizeof(AttendShared), context.stream},
           attend_kernel, p);
  }
}

}  // namespace baltoro::cuda::sm90
