// The reference's embedding, linear layers and head.
#pragma once

#include "ops/embed.h"
#include "ops/head.h"
#include "ops/linear.h"
#include "ops/reference/rounding.h"

namespace baltoro::reference {

void embed(const EmbedArgs& args, Rounding round);
void linear(const LinearArgs& args, Rounding round);
void head(const HeadArgs& args);

}  // namespace baltoro::reference
