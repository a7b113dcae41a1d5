// The leaf table of 64-bit ARM. Includes nothing with inline functions of its own: see cpu/leaf.h.
#include <arm_neon.h>

#include <cstddef>
#include <cstdint>

#include "cpu/leaf.h"
// The order matters: each file uses the ones before it.
// clang-format off
#include "cpu/simd/vec_neon.inl.h"
#include "cpu/simd/math.inl.h"
#include "cpu/simd/weights.inl.h"
#include "cpu/simd/matmul.inl.h"
#include "cpu/simd/outer.inl.h"
#include "cpu/simd/rows.inl.h"
#include "cpu/simd/kda.inl.h"
#include "cpu/simd/peak.inl.h"
#include "cpu/simd/table.inl.h"
// clang-format on

namespace baltoro::cpu {

const LeafTable kNeonLeaf = make_table("neon", matmul);

}  // namespace baltoro::cpu
