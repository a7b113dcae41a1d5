// The leaf table of machines with AVX512-BF16. Includes nothing with inline functions of its own:
// see cpu/leaf.h.
#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "cpu/leaf.h"
// The order matters: each file uses the ones before it.
// clang-format off
#include "cpu/simd/vec_avx512.inl.h"
#include "cpu/simd/math.inl.h"
#include "cpu/simd/weights.inl.h"
#include "cpu/simd/matmul.inl.h"
#include "cpu/simd/bf16_chunk.inl.h"
#include "cpu/simd/mxfp4_sums.inl.h"
#include "cpu/simd/matmul_bf16.inl.h"
#include "cpu/simd/outer.inl.h"
#include "cpu/simd/rows.inl.h"
#include "cpu/simd/kda.inl.h"
#include "cpu/simd/peak.inl.h"
#include "cpu/simd/peak_bf16.inl.h"
#include "cpu/simd/table.inl.h"
// clang-format on

namespace baltoro::cpu {

const LeafTable kAvx512Bf16Leaf = make_table("avx512bf16", matmul_bf16, pack_rows, peak_bf16);

}  // namespace baltoro::cpu
