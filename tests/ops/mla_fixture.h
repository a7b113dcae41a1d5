// One MLA layer's weights and a token stream, to be fed to mla_prefill and mla_decode in any
// slices.
#pragma once

#include <optional>
#include <vector>

#include "op_test_util.h"
#include "ops/mla.h"

namespace baltoro::test {

struct MlaPool {
  MlaPool(const MlaShape& shape, std::int64_t pages)
      : data(static_cast<std::size_t>(pages * kBlockTokens * shape.cache_width()), kNan),
        num_pages(pages),
        width(shape.cache_width()) {}

  float* row(std::int64_t page, std::int64_t index) {
    return data.data() + (page * kBlockTokens + index) * width;
  }

  Floats data;
  std::int64_t num_pages;
  std::int64_t width;
};

struct MlaSlice {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  Origin origin = Origin::kPrompt;
  std::vector<std::int32_t> pages = {};
};

struct MlaStream {
  MlaShape shape;
  std::int64_t tokens;
  Floats q, kv, v, gate;
  Floats kv_norm, kv_b;
  float kv_norm_eps = 1e-6f;
  std::optional<float> rope_theta;

  MlaStream(const MlaShape& s, std::int64_t n) : shape(s), tokens(n) {
    q = random_floats("q", n * s.num_heads * s.qk_dim(), 2);
    gate = random_floats("gate", n * s.num_heads * s.v_head_dim, 2);
    if (s.kind == MlaKind::kGqa) {
      kv = random_floats("kv", n * s.num_kv_heads * s.nope_dim, 2);
      v = random_floats("v", n * s.num_kv_heads * s.v_head_dim, 2);
    } else {
      kv = random_floats("kv", n * (s.kv_rank + s.rope_dim), 2);
      kv_norm = random_floats("kv_norm", s.kv_rank);
      kv_b = random_floats("kv_b", s.kv_b_rows() * s.kv_rank);
    }
  }

  // Both ops, or one of them, over one batch of sequences that are slices of this stream; returns
  // the rows of all slices one after the other.
  Floats run_batch(Backend& backend, MlaPool& pool, const std::vector<MlaSlice>& slices,
                   bool prefill = true, bool decode = true) const {
    std::vector<SequenceRows> sequences;
    std::int64_t rows = 0;
    for (const MlaSlice& s : slices) {
      sequences.push_back({rows, s.end - s.begin, s.begin, 0, -1, s.origin, s.pages});
      rows += s.end - s.begin;
    }
    const auto pick = [&](const Floats& from) {
      const std::int64_t cols = static_cast<std::int64_t>(from.size()) / tokens;
      Floats picked;
      for (const MlaSlice& s : slices) {
        const Floats part = rows_of(from, cols, s.begin, s.end);
        picked.insert(picked.end(), part.begin(), part.end());
      }
      return picked;
    };
    const auto view_of = [&](const Floats& picked) {
      return view(picked, static_cast<std::int64_t>(picked.size()) / rows);
    };
    const Floats rq = pick(q), rkv = pick(kv), rv = pick(v), rgate = pick(gate);
    const std::vector<std::int32_t> ids(static_cast<std::size_t>(rows), 0);
    Floats out(static_cast<std::size_t>(rows * shape.num_heads * shape.v_head_dim), kNan);
    MlaArgs args;
    args.shape = shape;
    args.batch = {ids, sequences};
    args.q = view_of(rq);
    args.kv = view_of(rkv);
    if (!rv.empty()) args.v = view_of(rv);
    if (!kv_norm.empty()) args.kv_norm = kv_norm.data();
    args.kv_norm_eps = kv_norm_eps;
    if (!kv_b.empty()) args.kv_b = f32_weight(kv_b, shape.kv_rank);
    args.rope_theta = rope_theta;
    if (!gate.empty()) args.gate = view_of(rgate);
    args.cache = {pool.data.data(), DType::kF32, pool.num_pages};
    args.out = mutable_view(out, shape.num_heads * shape.v_head_dim);
    if (prefill) mla_prefill(backend, args);
    if (decode) mla_decode(backend, args);
    return out;
  }
  Floats run(Backend& backend, MlaPool& pool, const std::vector<std::int32_t>& pages,
             MlaSlice slice) const {
    slice.pages = pages;
    return run_batch(backend, pool, {slice});
  }

  // A fresh sequence on pages 0, 1, 2, ..., slice by slice; returns all rows.
  Floats run_alone(Backend& backend, const std::vector<MlaSlice>& slices) const {
    const std::int64_t count = (tokens + kBlockTokens - 1) / kBlockTokens;
    MlaPool pool(shape, count);
    std::vector<std::int32_t> pages;
    for (std::int32_t p = 0; p < count; ++p) pages.push_back(p);
    Floats all;
    for (const MlaSlice& slice : slices) {
      const Floats part = run(backend, pool, pages, slice);
      all.insert(all.end(), part.begin(), part.end());
    }
    return all;
  }
  Floats run_as(Backend& backend, Origin origin) const {
    return run_alone(backend, {{0, tokens, origin}});
  }
};

}  // namespace baltoro::test
