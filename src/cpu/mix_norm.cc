#include "ops/mix_norm.h"

#include <cmath>

#include "cpu/context.h"

namespace baltoro::cpu {
namespace {

// res_norm * res_proj, once for all rows.
struct QueryWork {
  std::int64_t hidden = 0;
  float* query = nullptr;
  void carve(Carver& carver) { query = carver.floats(hidden); }
};

struct MixWork {
  std::int64_t num_sources = 0;
  const float** sources = nullptr;
  float* weights = nullptr;
  void carve(Carver& carver) {
    sources = carver.take<const float*>(num_sources);
    weights = carver.floats(num_sources);
  }
};

class MixNormRow {
 public:
  MixNormRow(const Context& context, const MixNormArgs& args, const float* query)
      : context_(context), args_(args), query_(query), hidden_(args.prefix.cols()) {}

  void run(std::int64_t row, const MixWork& work) const {
    const std::int64_t at = row * hidden_;
    float* prefix = args_.prefix.f32() + at;
    if (args_.delta) {
      context_.leaf.add(prefix, args_.delta.f32() + at, hidden_, context_.round);
    }
    if (args_.first_bad != nullptr && args_.first_bad[row] == -1 &&
        !context_.leaf.all_finite(prefix, hidden_)) {
      args_.first_bad[row] = args_.bad_tag;
    }
    float* out = args_.out.f32() + at;
    const float* mixed = args_.bank.empty() ? prefix : mix(at, prefix, out, work);
    const float mean = context_.leaf.sum_squares(mixed, hidden_) / static_cast<float>(hidden_);
    context_.leaf.norm_apply(mixed, 1.0f / std::sqrt(mean + args_.norm_eps), args_.norm, hidden_,
                             out, context_.round);
  }

 private:
  const float* mix(std::int64_t at, const float* prefix, float* out, const MixWork& work) const {
    const std::int64_t count = work.num_sources;
    for (std::int64_t i = 0; i + 1 < count; ++i) {
      work.sources[i] = args_.bank[static_cast<std::size_t>(i)].f32() + at;
    }
    work.sources[count - 1] = prefix;
    for (std::int64_t i = 0; i < count; ++i) {
      float sums[2];
      context_.leaf.squares_and_dot(work.sources[i], query_, hidden_, sums);
      const float mean = sums[0] / static_cast<float>(hidden_);
      work.weights[i] = sums[1] / std::sqrt(mean + args_.mix_eps);
    }
    const float largest = context_.leaf.max(work.weights, count);
    const float total = context_.leaf.exp_sum(work.weights, count, largest);
    for (std::int64_t i = 0; i < count; ++i) work.weights[i] /= total;
    context_.leaf.weighted_sum(work.sources, work.weights, count, hidden_, out, context_.round);
    return out;
  }

  const Context& context_;
  const MixNormArgs& args_;
  const float* query_;
  std::int64_t hidden_;
};

}  // namespace

void mix_norm(Context& context, const MixNormArgs& args) {
  QueryWork shared{args.bank.empty() ? 0 : args.prefix.cols()};
  context.scratch.shared(shared);
  if (!args.bank.empty()) {
    context.leaf.multiply(shared.query, args.res_norm, args.res_proj, shared.hidden);
  }
  const MixWork shape{static_cast<std::int64_t>(args.bank.size()) + 1};
  context.scratch.reserve_workers(shape);
  const MixNormRow mix(context, args, shared.query);
  const auto body = [&](std::int64_t begin, std::int64_t end, int worker) {
    const MixWork work = context.scratch.worker(shape, worker);
    for (std::int64_t row = begin; row < end; ++row) mix.run(row, work);
  };
  context.pool.parallel_for(args.prefix.rows(), 1, body);
}

}  // namespace baltoro::cpu
