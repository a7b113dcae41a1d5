// The gated half of an MLP on a tile of its hidden units: dense layers, shared and routed experts.
#pragma once

#include "cpu/product.h"
#include "ops/glu_mlp.h"

namespace baltoro::cpu {

struct GatedWork {
  ProductWork product;
  float* up = nullptr;  // [kPackedGroup, kMatmulOutputs]
  void carve(Carver& carver) {
    product.carve(carver);
    up = carver.floats(kPackedGroup * kMatmulOutputs);
  }
};

struct GatedMlp {
  WeightView gate;
  WeightView up;
  Activation activation;
};
struct GatedTile {
  Range range;
  GatedWork work;
};

// hidden[m, n] = act(round(gate x), round(up x)) for n in the tile's range.
void gated_tile(const Context& context, const GatedMlp& mlp, const Rows& x, const Output& hidden,
                const GatedTile& tile);

}  // namespace baltoro::cpu
