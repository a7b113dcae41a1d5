// KDA and MLA problems whose tokens can be cut into pieces, slots and batches at will, for the
// tests of the determinism contract and of long or strongly decayed sequences.
#pragma once

#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "cpu/backend.h"
#include "ops/kda.h"
#include "ops/mla.h"
#include "ops/parity/memory.h"

namespace baltoro::testing_cpu {

// Rows [token, token + rows) of a problem, as a run of rows of one sequence at start_pos.
struct Piece {
  std::int64_t token = 0;
  std::int64_t rows = 0;
  std::int64_t start_pos = 0;
  std::int32_t slot = 0;
  Origin origin = Origin::kPrompt;
  std::int32_t boundary_slot = -1;
  std::vector<std::int32_t> pages = {};
};

inline bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  if (a.size() != b.size()) return false;
  return a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

inline std::vector<float> slice(const std::vector<float>& all, std::int64_t first,
                                std::int64_t count) {
  return {all.begin() + first, all.begin() + first + count};
}

// Largest |a - b| over the largest |a|; infinity where a value is not finite.
double relative_error(const std::vector<float>& expected, const std::vector<float>& actual);

// The activations of a backend with Activations::kBf16 hold bf16 values.
void round_values(std::vector<float>& values, Activations activations);

struct KdaPool {
  KdaPool(const KdaShape& shape, std::int64_t slots, float fill);
  std::vector<float> slot_state(const KdaShape& shape, std::int64_t slot) const;
  std::vector<float> slot_conv(const KdaShape& shape, std::int64_t slot) const;
  void clear(const KdaShape& shape, std::int64_t slot);
  void copy_slot(const KdaShape& shape, std::int64_t from, std::int64_t to);

  std::vector<float> state, conv;
  std::int64_t num_slots;
};

struct KdaProblem {
  KdaProblem(const KdaShape& shape, std::optional<float> lower_bound, std::int64_t tokens,
             Activations activations = Activations::kF32);
  // Runs the pieces as one batch; returns the output rows in batch order.
  std::vector<float> run(Backend& backend, const std::vector<Piece>& pieces, KdaPool& pool) const;

  KdaShape shape;
  std::optional<float> lower_bound;
  std::int64_t tokens;
  std::vector<float> q, k, v, decay, beta, gate;
  std::vector<float> q_conv, k_conv, v_conv, a_log, dt_bias, o_norm;
};

struct MlaProblem {
  MlaProblem(const MlaShape& shape, std::int64_t tokens,
             Activations activations = Activations::kF32);
  // A NaN-filled cache for this backend.
  std::vector<std::byte> empty_cache(const Backend& backend, std::int64_t num_pages) const;
  // Runs the pieces of both origins as one batch; returns the output rows in batch order.
  std::vector<float> run(Backend& backend, const std::vector<Piece>& pieces,
                         std::vector<std::byte>& cache) const;

  MlaShape shape;
  std::optional<float> rope_theta;
  std::int64_t tokens;
  std::vector<float> q, kv, v, gate, kv_norm;
  std::vector<std::uint16_t> kv_b;
};

}  // namespace baltoro::testing_cpu
