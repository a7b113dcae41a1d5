#include "ops/reference/mla.h"

#include <cmath>
#include <vector>

#include "ops/latent_page.h"
#include "ops/reference/matrix.h"
#include "ops/reference/mix_norm.h"

namespace baltoro::reference {
namespace {

// The rows of one sequence in the paged cache.
class PagedRows {
 public:
  PagedRows(const MlaCache& cache, std::span<const std::int32_t> pages, const MlaShape& shape)
      : cache_(cache), pages_(pages), width_(shape.cache_width()), latents_(shape) {}

  void write(std::int64_t position, std::span<const double> row) const {
    const std::vector<float> values(row.begin(), row.end());
    if (cache_.dtype == DType::kE4m3) {
      write_latent(latents_, page(position), position % kBlockTokens, values);
      return;
    }
    const std::int64_t at = offset(position);
    for (std::int64_t c = 0; c < width_; ++c) {
      const float value = values[static_cast<std::size_t>(c)];
      if (cache_.dtype == DType::kBf16) {
        static_cast<std::uint16_t*>(cache_.data)[at + c] = f32_to_bf16(value);
      } else {
        static_cast<float*>(cache_.data)[at + c] = value;
      }
    }
  }

  // Rows [0, count), [count, width].
  std::vector<double> read(std::int64_t count) const {
    std::vector<double> rows;
    rows.reserve(static_cast<std::size_t>(count * width_));
    for (std::int64_t position = 0; position < count; ++position) {
      if (cache_.dtype == DType::kE4m3) {
        const auto row = read_latent(latents_, page(position), position % kBlockTokens);
        rows.insert(rows.end(), row.begin(), row.end());
        continue;
      }
      const std::int64_t at = offset(position);
      for (std::int64_t c = 0; c < width_; ++c) rows.push_back(value_at(at + c));
    }
    return rows;
  }

 private:
  std::int64_t page_index(std::int64_t position) const {
    return pages_[static_cast<std::size_t>(position / kBlockTokens)];
  }
  std::byte* page(std::int64_t position) const {
    return static_cast<std::byte*>(cache_.data) + page_index(position) * latents_.bytes();
  }
  std::int64_t offset(std::int64_t position) const {
    return (page_index(position) * kBlockTokens + position % kBlockTokens) * width_;
  }
  double value_at(std::int64_t at) const {
    if (cache_.dtype == DType::kBf16) {
      return bf16_to_f32(static_cast<const std::uint16_t*>(cache_.data)[at]);
    }
    return static_cast<const float*>(cache_.data)[at];
  }

  const MlaCache& cache_;
  std::span<const std::int32_t> pages_;
  std::int64_t width_;
  LatentPage latents_;  // of a cache of kE4m3
};

class SequenceAttention {
 public:
  SequenceAttention(const MlaArgs& args, const SequenceRows& sequence,
                    const std::vector<double>& kv_b, Rounding round)
      : args_(args), shape_(args.shape), sequence_(sequence), kv_b_(kv_b), round_(round) {}

  void run() {
    const PagedRows pages(args_.cache, sequence_.pages, shape_);
    for (std::int64_t t = 0; t < sequence_.num_rows; ++t) {
      pages.write(sequence_.start_pos + t, new_cache_row(t));
    }
    length_ = sequence_.start_pos + sequence_.num_rows;
    cached_ = pages.read(length_);
    for (std::int64_t head = 0; head < shape_.num_heads; ++head) {
      if (shape_.kind == MlaKind::kGqa) {
        attend_grouped(head);
      } else if (sequence_.origin == Origin::kPrompt) {
        attend_expanded(head);
      } else {
        attend_absorbed(head);
      }
    }
  }

 private:
  const double* key_rows(std::int64_t head) const {
    return kv_b_.data() + head * (shape_.nope_dim + shape_.v_head_dim) * shape_.kv_rank;
  }
  const double* value_rows(std::int64_t head) const {
    return shape_.kind == MlaKind::kMqa ? kv_b_.data() + head * shape_.v_head_dim * shape_.kv_rank
                                        : key_rows(head) + shape_.nope_dim * shape_.kv_rank;
  }

  // [normalised latent | side key], or [keys | values] of all heads.
  std::vector<double> new_cache_row(std::int64_t t) const {
    const std::int64_t at = sequence_.first_row + t;
    const float* kv = args_.kv.f32() + at * args_.kv.cols();
    const std::vector<double> projected(kv, kv + args_.kv.cols());
    if (shape_.kind == MlaKind::kGqa) {
      std::vector<double> row = projected;
      const float* v = args_.v.f32() + at * args_.v.cols();
      row.insert(row.end(), v, v + args_.v.cols());
      return row;
    }
    const auto rank = static_cast<std::size_t>(shape_.kv_rank);
    std::vector<double> row =
        rms_norm(std::span(projected).first(rank), args_.kv_norm, args_.kv_norm_eps, round_);
    row.insert(row.end(), projected.begin() + shape_.kv_rank, projected.end());
    rotate_if_asked(std::span(row).subspan(rank), sequence_.start_pos + t);
    return row;
  }

  void rotate_if_asked(std::span<double> side, std::int64_t position) const {
    if (!args_.rope_theta) return;
    rotate(side, position, *args_.rope_theta);
    for (double& value : side) value = round_(value);
  }

  // [nope | side] of one head, the side rotated where asked.
  std::vector<double> query(std::int64_t head, std::int64_t t) const {
    const float* begin =
        args_.q.f32() + (sequence_.first_row + t) * args_.q.cols() + head * shape_.qk_dim();
    std::vector<double> q(begin, begin + shape_.qk_dim());
    rotate_if_asked(std::span(q).subspan(static_cast<std::size_t>(shape_.nope_dim)),
                    sequence_.start_pos + t);
    return q;
  }

  double scale() const { return 1.0 / std::sqrt(static_cast<double>(shape_.qk_dim())); }
  std::int64_t visible(std::int64_t t) const { return sequence_.start_pos + t + 1; }

  // v_j = W_UV c_j for every position.
  std::vector<double> expanded_values(std::int64_t head) const {
    std::vector<double> values;
    for (std::int64_t j = 0; j < length_; ++j) {
      append_product(value_rows(head), shape_.v_head_dim, cached_row(j), values);
    }
    return values;
  }
  // k_j = [W_UK c_j | s_j] for every position.
  std::vector<double> expanded_keys(std::int64_t head) const {
    std::vector<double> keys;
    for (std::int64_t j = 0; j < length_; ++j) {
      append_product(key_rows(head), shape_.nope_dim, cached_row(j), keys);
      const double* side = cached_row(j) + shape_.kv_rank;
      keys.insert(keys.end(), side, side + shape_.rope_dim);
    }
    return keys;
  }
  const double* cached_row(std::int64_t j) const {
    return cached_.data() + j * shape_.cache_width();
  }
  void append_product(const double* rows, std::int64_t count, const double* latent,
                      std::vector<double>& out) const {
    for (std::int64_t r = 0; r < count; ++r) {
      double sum = 0;
      for (std::int64_t c = 0; c < shape_.kv_rank; ++c) {
        sum += rows[r * shape_.kv_rank + c] * latent[c];
      }
      out.push_back(sum);
    }
  }

  void attend_expanded(std::int64_t head) const {
    const std::vector<double> values = expanded_values(head);
    const bool up_projects_keys = shape_.kind == MlaKind::kLatent;
    const std::vector<double> keys = up_projects_keys ? expanded_keys(head) : std::vector<double>{};
    const HeadCache cache{up_projects_keys ? keys.data() : cached_.data(), shape_.qk_dim(),
                          values.data(), shape_.v_head_dim};
    std::vector<double> out(static_cast<std::size_t>(shape_.v_head_dim));
    for (std::int64_t t = 0; t < sequence_.num_rows; ++t) {
      attend(query(head, t), cache, visible(t), scale(), out);
      write_out(head, t, out);
    }
  }

  void attend_absorbed(std::int64_t head) const {
    const HeadCache cache{cached_.data(), shape_.cache_width(), cached_.data(),
                          shape_.cache_width()};
    std::vector<double> context(static_cast<std::size_t>(shape_.kv_rank));
    for (std::int64_t t = 0; t < sequence_.num_rows; ++t) {
      attend(absorbed_query(head, t), cache, visible(t), scale(), context);
      std::vector<double> out;
      append_product(value_rows(head), shape_.v_head_dim, context.data(), out);
      write_out(head, t, out);
    }
  }

  // [W_UK^T q_nope | q_side]: what meets the cached row directly.
  std::vector<double> absorbed_query(std::int64_t head, std::int64_t t) const {
    const std::vector<double> q = query(head, t);
    if (shape_.kind == MlaKind::kMqa) return q;
    std::vector<double> absorbed(static_cast<std::size_t>(shape_.kv_rank), 0.0);
    for (std::int64_t r = 0; r < shape_.nope_dim; ++r) {
      const double* row = key_rows(head) + r * shape_.kv_rank;
      for (std::size_t c = 0; c < absorbed.size(); ++c) {
        absorbed[c] += q[static_cast<std::size_t>(r)] * row[c];
      }
    }
    absorbed.insert(absorbed.end(), q.begin() + shape_.nope_dim, q.end());
    return absorbed;
  }

  void attend_grouped(std::int64_t head) const {
    const std::int64_t group = head / (shape_.num_heads / shape_.num_kv_heads);
    const double* keys = cached_.data() + group * shape_.nope_dim;
    const double* values =
        cached_.data() + shape_.num_kv_heads * shape_.nope_dim + group * shape_.v_head_dim;
    const HeadCache cache{keys, shape_.cache_width(), values, shape_.cache_width()};
    std::vector<double> out(static_cast<std::size_t>(shape_.v_head_dim));
    for (std::int64_t t = 0; t < sequence_.num_rows; ++t) {
      attend(query(head, t), cache, visible(t), scale(), out);
      write_out(head, t, out);
    }
  }

  void write_out(std::int64_t head, std::int64_t t, std::span<const double> attention) const {
    const std::int64_t at =
        (sequence_.first_row + t) * shape_.num_heads * shape_.v_head_dim + head * shape_.v_head_dim;
    for (std::int64_t c = 0; c < shape_.v_head_dim; ++c) {
      double value = round_(attention[static_cast<std::size_t>(c)]);
      if (args_.gate) value = round_(value * round_(sigmoid(args_.gate.f32()[at + c])));
      args_.out.f32()[at + c] = static_cast<float>(value);
    }
  }

  const MlaArgs& args_;
  const MlaShape& shape_;
  const SequenceRows& sequence_;
  const std::vector<double>& kv_b_;  // [kv_b_rows, kv_rank]
  Rounding round_;
  std::int64_t length_ = 0;     // positions in the cache, this call's included
  std::vector<double> cached_;  // [length, cache_width], as stored
};

}  // namespace

void rotate(std::span<double> side, std::int64_t position, double theta) {
  const double size = static_cast<double>(side.size());
  for (std::size_t i = 0; i + 1 < side.size(); i += 2) {
    const double angle =
        static_cast<double>(position) * std::pow(theta, -static_cast<double>(i) / size);
    const double a = side[i];
    const double b = side[i + 1];
    side[i] = a * std::cos(angle) - b * std::sin(angle);
    side[i + 1] = a * std::sin(angle) + b * std::cos(angle);
  }
}

void attend(std::span<const double> query, const HeadCache& cache, std::int64_t count, double scale,
            std::span<double> out) {
  std::vector<double> weights;
  weights.reserve(static_cast<std::size_t>(count));
  for (std::int64_t j = 0; j < count; ++j) {
    const double* key = cache.keys + j * cache.key_stride;
    double score = 0;
    for (std::size_t d = 0; d < query.size(); ++d) score += query[d] * key[d];
    weights.push_back(score * scale);
  }
  softmax(weights);
  for (double& value : out) value = 0;
  for (std::int64_t j = 0; j < count; ++j) {
    const double* value = cache.values + j * cache.value_stride;
    const double weight = weights[static_cast<std::size_t>(j)];
    for (std::size_t c = 0; c < out.size(); ++c) out[c] += weight * value[c];
  }
}

void mla(const MlaArgs& args, Origin origin, Rounding round) {
  const std::vector<double> kv_b =
      args.shape.kind == MlaKind::kGqa ? std::vector<double>{} : decode_weight(args.kv_b);
  for (const SequenceRows& sequence : args.batch.sequences) {
    if (sequence.origin == origin) SequenceAttention(args, sequence, kv_b, round).run();
  }
}

}  // namespace baltoro::reference
