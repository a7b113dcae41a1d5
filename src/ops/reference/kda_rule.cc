#include "ops/reference/kda_rule.h"

#include <cmath>

namespace baltoro::reference {
namespace {

// A dense row-major matrix of the chunk's algebra.
struct Matrix {
  std::int64_t rows, cols;
  std::vector<double> values;

  Matrix(std::int64_t r, std::int64_t c)
      : rows(r), cols(c), values(static_cast<std::size_t>(r * c), 0.0) {}
  double& operator()(std::int64_t i, std::int64_t j) {
    return values[static_cast<std::size_t>(i * cols + j)];
  }
  double operator()(std::int64_t i, std::int64_t j) const {
    return values[static_cast<std::size_t>(i * cols + j)];
  }
};

// (I + A) X = B for strictly lower triangular A: forward substitution, X in place of B.
void solve_unit_lower(const Matrix& a, Matrix& b) {
  for (std::int64_t i = 0; i < b.rows; ++i) {
    for (std::int64_t j = 0; j < i; ++j) {
      for (std::int64_t c = 0; c < b.cols; ++c) b(i, c) -= a(i, j) * b(j, c);
    }
  }
}

// G_i = sum over r <= i of g_r, per channel.
Matrix cumulate(const RuleInputs& in) {
  Matrix total(in.n, in.dk);
  total.values = in.g;
  for (std::int64_t i = 1; i < in.n; ++i) {
    for (std::int64_t d = 0; d < in.dk; ++d) total(i, d) += total(i - 1, d);
  }
  return total;
}

struct Products {
  Matrix a;  // beta_i k_i . k_j decayed from j to i, i > j
  Matrix p;  // q_i . k_j decayed from j to i, i >= j
};

Products decayed_products(const RuleInputs& in, const Matrix& total) {
  Products out{Matrix(in.n, in.n), Matrix(in.n, in.n)};
  for (std::int64_t i = 0; i < in.n; ++i) {
    for (std::int64_t j = 0; j <= i; ++j) {
      double kk = 0, qk = 0;
      for (std::int64_t d = 0; d < in.dk; ++d) {
        const double key =
            in.k[static_cast<std::size_t>(j * in.dk + d)] * std::exp(total(i, d) - total(j, d));
        kk += in.k[static_cast<std::size_t>(i * in.dk + d)] * key;
        qk += in.q[static_cast<std::size_t>(i * in.dk + d)] * key;
      }
      if (i > j) out.a(i, j) = in.beta[static_cast<std::size_t>(i)] * kk;
      out.p(i, j) = qk;
    }
  }
  return out;
}

// Vn = U - W S with (I + A) U = diag(beta) V and (I + A) W = diag(beta) (exp(G) . K).
Matrix new_values(const RuleInputs& in, const Matrix& total, const Matrix& a, const double* state) {
  Matrix u(in.n, in.dv), w(in.n, in.dk);
  for (std::int64_t i = 0; i < in.n; ++i) {
    const double beta = in.beta[static_cast<std::size_t>(i)];
    for (std::int64_t c = 0; c < in.dv; ++c) {
      u(i, c) = beta * in.v[static_cast<std::size_t>(i * in.dv + c)];
    }
    for (std::int64_t d = 0; d < in.dk; ++d) {
      w(i, d) = beta * std::exp(total(i, d)) * in.k[static_cast<std::size_t>(i * in.dk + d)];
    }
  }
  solve_unit_lower(a, u);
  solve_unit_lower(a, w);
  for (std::int64_t i = 0; i < in.n; ++i) {
    for (std::int64_t d = 0; d < in.dk; ++d) {
      for (std::int64_t c = 0; c < in.dv; ++c) u(i, c) -= w(i, d) * state[d * in.dv + c];
    }
  }
  return u;
}

// O = (Q . exp(G)) S + P Vn.
void read_out(const RuleInputs& in, const Matrix& total, const Matrix& p, const Matrix& values,
              const double* state, double* out) {
  for (std::int64_t i = 0; i < in.n; ++i) {
    double* row = out + i * in.dv;
    for (std::int64_t c = 0; c < in.dv; ++c) row[c] = 0;
    for (std::int64_t d = 0; d < in.dk; ++d) {
      const double q = in.q[static_cast<std::size_t>(i * in.dk + d)] * std::exp(total(i, d));
      for (std::int64_t c = 0; c < in.dv; ++c) row[c] += q * state[d * in.dv + c];
    }
    for (std::int64_t j = 0; j <= i; ++j) {
      for (std::int64_t c = 0; c < in.dv; ++c) row[c] += p(i, j) * values(j, c);
    }
  }
}

// S <- Diag(exp(G_last)) S + (exp(G_last - G) . K)^T Vn.
void advance_state(const RuleInputs& in, const Matrix& total, const Matrix& values, double* state) {
  const std::int64_t last = in.n - 1;
  for (std::int64_t d = 0; d < in.dk; ++d) {
    double* row = state + d * in.dv;
    const double decay = std::exp(total(last, d));
    for (std::int64_t c = 0; c < in.dv; ++c) row[c] *= decay;
    for (std::int64_t i = 0; i < in.n; ++i) {
      const double key =
          std::exp(total(last, d) - total(i, d)) * in.k[static_cast<std::size_t>(i * in.dk + d)];
      for (std::int64_t c = 0; c < in.dv; ++c) row[c] += key * values(i, c);
    }
  }
}

}  // namespace

void kda_recurrent_step(const RuleInputs& in, std::int64_t i, double* state, double* out) {
  const double* q = in.q.data() + i * in.dk;
  const double* k = in.k.data() + i * in.dk;
  const double* v = in.v.data() + i * in.dv;
  const double* g = in.g.data() + i * in.dk;
  const double beta = in.beta[static_cast<std::size_t>(i)];
  for (std::int64_t d = 0; d < in.dk; ++d) {
    const double decay = std::exp(g[d]);
    for (std::int64_t c = 0; c < in.dv; ++c) state[d * in.dv + c] *= decay;
  }
  for (std::int64_t c = 0; c < in.dv; ++c) {
    double predicted = 0;
    for (std::int64_t d = 0; d < in.dk; ++d) predicted += state[d * in.dv + c] * k[d];
    const double correction = beta * (v[c] - predicted);
    double read = 0;
    for (std::int64_t d = 0; d < in.dk; ++d) {
      state[d * in.dv + c] += k[d] * correction;
      read += state[d * in.dv + c] * q[d];
    }
    out[c] = read;
  }
}

void kda_chunk(const RuleInputs& in, double* state, double* out) {
  const Matrix total = cumulate(in);
  const Products products = decayed_products(in, total);
  const Matrix values = new_values(in, total, products.a, state);
  read_out(in, total, products.p, values, state, out);
  advance_state(in, total, values, state);
}

}  // namespace baltoro::reference
