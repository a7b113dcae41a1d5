#include "ops/mla.h"

#include "core/trace.h"
#include "ops/arg_check.h"
#include "ops/latent_page.h"

namespace baltoro {
namespace {

void check_shape(const ArgCheck& check, const MlaArgs& args) {
  const MlaShape& shape = args.shape;
  check.that(shape.num_heads > 0 && shape.nope_dim > 0 && shape.v_head_dim > 0,
             "heads and head sizes above 0");
  check.that(shape.rope_dim >= 0, "rope_dim >= 0");
  if (shape.kind == MlaKind::kGqa) {
    check.that(shape.num_kv_heads > 0 && shape.num_heads % shape.num_kv_heads == 0,
               "a number of key and value heads that divides the heads");
    check.that(shape.rope_dim == 0 && shape.kv_rank == 0, "no side branch and no latent for gqa");
  } else {
    check.that(shape.kv_rank > 0, "kv_rank above 0");
    check.that(shape.kind != MlaKind::kMqa || shape.nope_dim == shape.kv_rank,
               "mqa queries of the latent's width");
  }
  if (args.rope_theta) {
    check.that(shape.rope_dim % 2 == 0 && *args.rope_theta > 0,
               "an even rope_dim and rope_theta above 0");
  }
}

void check_args(const ArgCheck& check, const MlaArgs& args, const Backend& backend) {
  const MlaShape& shape = args.shape;
  const DType dtype = backend.activation_dtype();
  const std::int64_t rows = args.batch.num_rows();
  const std::int64_t value_channels = shape.num_heads * shape.v_head_dim;
  check.view("q", args.q, rows, shape.num_heads * shape.qk_dim(), dtype);
  if (shape.kind == MlaKind::kGqa) {
    check.view("kv (keys)", args.kv, rows, shape.num_kv_heads * shape.nope_dim, dtype);
    check.view("v", args.v, rows, shape.num_kv_heads * shape.v_head_dim, dtype);
  } else {
    check.view("kv", args.kv, rows, shape.kv_rank + shape.rope_dim, dtype);
    check.that(!args.v, "no separate values where a latent is cached");
    check.pointer("kv_norm", args.kv_norm);
    check.that(args.kv_norm_eps >= 0, "kv_norm_eps >= 0");
    check.weight("kv_b", args.kv_b, shape.kv_b_rows(), shape.kv_rank);
  }
  check.optional_view("gate", args.gate, rows, value_channels, dtype);
  check.view("out", args.out, rows, value_channels, dtype);
  for (const ConstTensorView& input : {args.q, args.kv, args.v, args.gate}) {
    check.disjoint("out", args.out, "an input", input);
  }
  if (args.cache.dtype == DType::kE4m3) {
    check.that(shape.kind != MlaKind::kGqa, "latents where the cache is of fp8");
  } else {
    check.that(args.cache.dtype == backend.cache_dtype(), "the backend's cache dtype");
  }
  check.pointer("cache", args.cache.data);
}

void check_all(const char* op, const MlaArgs& args, const Backend& backend, Origin origin) {
  const ArgCheck check(op, args.layer);
  check.batch(args.batch);
  check_shape(check, args);
  check_args(check, args, backend);
  check.pages(args.batch, origin, args.cache.num_pages);
}

// Bytes and FLOPs that both forms share: projections of the new tokens in, attention out, cache
// rows of the past read and of the new tokens written; `pairs` is the number of (query, key) pairs.
struct MlaSizes {
  double rows, past, pairs, heads, nope, rope, value, rank;
};

MlaSizes sizes_of(const MlaShape& shape, std::int64_t rows, std::int64_t start_pos) {
  const double t = static_cast<double>(rows);
  const double past = static_cast<double>(start_pos);
  return {t,
          past,
          t * past + t * (t + 1) / 2,
          static_cast<double>(shape.num_heads),
          static_cast<double>(shape.nope_dim),
          static_cast<double>(shape.rope_dim),
          static_cast<double>(shape.v_head_dim),
          static_cast<double>(shape.kv_rank)};
}

Cost traffic(const MlaShape& shape, const MlaSizes& n, DType activation_dtype, DType cache_dtype) {
  const double queries = n.heads * static_cast<double>(shape.qk_dim());
  const double values =
      queries + static_cast<double>(shape.cache_width()) + 2 * n.heads * n.value;  // gate and out
  Cost cost;
  if (shape.kind != MlaKind::kGqa) {
    cost.weight_bytes = static_cast<double>(shape.kv_b_rows()) * n.rank * 2 +
                        n.rank * static_cast<double>(sizeof(float));
  }
  cost.activation_bytes = n.rows * values * static_cast<double>(dtype_bytes(activation_dtype));
  cost.state_bytes = (n.past + n.rows) * static_cast<double>(cache_page_bytes(shape, cache_dtype)) /
                     static_cast<double>(kBlockTokens);
  return cost;
}

}  // namespace

std::int64_t cache_page_bytes(const MlaShape& shape, DType dtype) {
  if (dtype == DType::kE4m3) return LatentPage(shape).bytes();
  return kBlockTokens * shape.cache_width() * static_cast<std::int64_t>(dtype_bytes(dtype));
}

void mla_prefill(Backend& backend, const MlaArgs& args) {
  check_all("mla_prefill", args, backend, Origin::kPrompt);
  const TraceZone zone("mla_prefill", args.layer);
  backend.mla_prefill(args);
}

void mla_decode(Backend& backend, const MlaArgs& args) {
  check_all("mla_decode", args, backend, Origin::kGenerated);
  const TraceZone zone("mla_decode", args.layer);
  backend.mla_decode(args);
}

Cost mla_prefill_cost(const MlaShape& shape, std::int64_t rows, std::int64_t start_pos,
                      DType activation_dtype, DType cache_dtype) {
  const MlaSizes n = sizes_of(shape, rows, start_pos);
  Cost cost = traffic(shape, n, activation_dtype, cache_dtype);
  const double core = 2 * n.pairs * n.heads * (n.nope + n.rope + n.value);
  const double expand_one = 2 * static_cast<double>(shape.kv_b_rows()) * n.rank;
  const bool expands = shape.kind != MlaKind::kGqa;
  cost.flops = core + (expands ? n.rows * expand_one : 0);
  cost.executed_flops = core + (expands ? (n.past + n.rows) * expand_one : 0);
  return cost;
}

Cost mla_decode_cost(const MlaShape& shape, std::int64_t start_pos, DType activation_dtype,
                     DType cache_dtype) {
  const MlaSizes n = sizes_of(shape, 1, start_pos);
  Cost cost = traffic(shape, n, activation_dtype, cache_dtype);
  if (shape.kind == MlaKind::kGqa) {
    cost.flops = 2 * n.pairs * n.heads * (n.nope + n.value);
  } else {
    const double absorb = 2 * static_cast<double>(shape.kv_b_rows()) * n.rank;
    cost.flops = absorb + 2 * n.pairs * n.heads * (2 * n.rank + n.rope);
  }
  cost.executed_flops = cost.flops;
  return cost;
}

}  // namespace baltoro
