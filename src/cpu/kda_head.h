// What both forms of KDA do with one row of one head.
#pragma once

#include "cpu/context.h"
#include "ops/kda.h"

namespace baltoro::cpu {

// out [Dk] = exp(g) of a row of the batch; `rate` is exp(a_log) of the head.
void kda_decays(const Context& context, const KdaMixArgs& args, std::int64_t row, std::int64_t head,
                float rate, float* out);

// Output norm and gate of a row of the batch, into args.out; o [Dv] is rounded in place first.
void kda_finish(const Context& context, const KdaMixArgs& args, std::int64_t row, std::int64_t head,
                float* o);

}  // namespace baltoro::cpu
