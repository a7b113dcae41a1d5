// Weight rows in any stored form, and the products that the ops are made of.
#pragma once

#include <cstdint>
#include <vector>

#include "core/tensor_view.h"

namespace baltoro::reference {

// Row `row` of the weight as f32, [cols]: exact for every format.
void decode_weight_row(const WeightView& weight, std::int64_t row, float* out);

// The whole weight, [rows, cols].
std::vector<double> decode_weight(const WeightView& weight);

// sum_i w[i] * x[i], in index order.
double dot(const float* w, const double* x, std::int64_t n);

// The view's values, which are f32.
std::vector<double> to_double(const ConstTensorView& view);

// x W^T: x [M, K], weight [N, K] -> [M, N].
std::vector<double> multiply(const WeightView& weight, const std::vector<double>& x);

}  // namespace baltoro::reference
