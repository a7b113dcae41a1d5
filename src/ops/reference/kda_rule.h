// The two forms of the delta rule with a decay per key channel (specification 3.5, 3.6), for one
// head, in double.
#pragma once

#include <cstdint>
#include <vector>

namespace baltoro::reference {

// One head's inputs over n consecutive tokens, as the rule reads them: q, k [n, Dk] normalised, q
// also scaled; v [n, Dv]; g [n, Dk] the log of the decay, at most 0; beta [n] after its sigmoid.
struct RuleInputs {
  std::int64_t n = 0;
  std::int64_t dk = 0;
  std::int64_t dv = 0;
  std::vector<double> q, k, v, g, beta;
};

// Token i of the inputs: S <- Diag(exp g) S; S <- S + k (beta (v - S^T k))^T; out = S^T q [Dv].
// S [Dk, Dv] is updated in place; out reads it after the write.
void kda_recurrent_step(const RuleInputs& in, std::int64_t i, double* state, double* out);

// All n tokens at once, as matrix products over the chunk: out [n, Dv], S updated in place. Equal
// to n recurrent steps in exact arithmetic. Every exponent argument is a difference G_i - G_j with
// i >= j of cumulated log decays, hence at most 0 for either form of the gate.
void kda_chunk(const RuleInputs& in, double* state, double* out);

}  // namespace baltoro::reference
