// The kernel that an op's call runs, and the work of the call: the one way from the argument structs
// and cost functions of the ops to the calibrated model, for the calibration and for a prediction.
#pragma once

#include <string>

#include "ops/backend.h"
#include "ops/cost.h"
#include "ops/mla.h"
#include "plan/kernel.h"

namespace baltoro::plan {

struct KernelCall {
  std::string
      kernel;  // an op, with what decides which code runs: "linear bf16", "linear bf16 row" for one row,
               // "kda_mix prompt"
  KernelWork work;
  Cost cost;
};

// Mean length of the inner products of gate, up [inner, hidden] and down [out, inner].
double glu_depth(double hidden, double inner, double out);
// The mean of the lengths of q . k and of the rows of p V.
double attention_depth(const MlaShape& shape, Origin origin);

// Of the backend that the arguments are for, its types; a linear op of several formats counts as the
// format of its first output.
KernelCall kernel_call(const Backend& backend, const EmbedArgs& args);
KernelCall kernel_call(const Backend& backend, const LinearArgs& args);
KernelCall kernel_call(const Backend& backend, const MixNormArgs& args);
KernelCall kernel_call(const Backend& backend, const GluMlpArgs& args);
KernelCall kernel_call(const Backend& backend, const RouteArgs& args);
// A linear op, too: what differs, the type of the output, takes no time that can be seen.
KernelCall kernel_call(const Backend& backend, const HeadArgs& args);
// A batch of one origin.
KernelCall kernel_call(const Backend& backend, const KdaMixArgs& args);
// `distinct`: how many experts the rows touch together, which the ids decide when the op runs.
KernelCall kernel_call(const Backend& backend, const ExpertMlpArgs& args, double distinct);
// The sequences of the op's origin; no work where there are none.
KernelCall mla_prefill_call(const Backend& backend, const MlaArgs& args);
KernelCall mla_decode_call(const Backend& backend, const MlaArgs& args);

}  // namespace baltoro::plan
