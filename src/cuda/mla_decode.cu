// Gated MLA of the rows that the model generated.
#include "cuda/mla_parts.h"

namespace baltoro::cuda {

void mla_decode(Context& context, const MlaArgs& args) {
  if (!has_rows_of(args.batch, Origin::kGenerated)) return;
  mla_write_cache(context, args, Origin::kGenerated);
  mla_attend_plain(context, args, Origin::kGenerated);
}

}  // namespace baltoro::cuda
