// Attention over explicit keys and values of each head: prompts of every kind, and kGqa's decode.
#pragma once

#include "cpu/context.h"
#include "ops/batch.h"

namespace baltoro::cpu {

// Serves the sequences of `origin`, cache rows included.
void attend_expanded(Context& context, const MlaArgs& args, Origin origin);

}  // namespace baltoro::cpu
