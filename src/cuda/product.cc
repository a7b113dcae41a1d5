#include "cuda/product.h"

namespace baltoro::cuda {

void multiply(Context& context, const Product& product) { multiply_plain(context, product); }

}  // namespace baltoro::cuda
