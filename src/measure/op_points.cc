#include "measure/op_points.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/rng.h"
#include "measure/op_points_sequence.h"
#include "ops/embed.h"
#include "ops/expert_mlp.h"
#include "ops/glu_mlp.h"
#include "ops/linear.h"
#include "ops/mix_norm.h"
#include "ops/route.h"

namespace baltoro {
namespace {

using F = WeightFormat;

constexpr Activation kSitu{ActivationKind::kSitu, 4, 25};
constexpr const char* kStream = "stream";

class Points {
 public:
  explicit Points(std::vector<OpPoint>& list) : list_(list) {}

  void linear(F format, std::int64_t rows, std::int64_t cols, std::int64_t outputs,
              std::int64_t set, const char* group = "linear") {
    const auto prepare = [=](RotatingMemory& memory) -> PointCall {
      const TensorView x = memory.activations(rows, cols);
      const TensorView out = memory.activations(rows, outputs);
      return [=, &memory] {
        LinearArgs args{.x = x};
        args.add(memory.weight(format, outputs, cols), out);
        baltoro::linear(memory.backend(), args);
        return plan::kernel_call(memory.backend(), args);
      };
    };
    add(group, fmt::format("{} M={} K={} N={}", weight_format_name(format), rows, cols, outputs),
        set, prepare);
  }

  void glu(F format, std::int64_t rows, std::int64_t hidden, std::int64_t inner, std::int64_t set) {
    const auto prepare = [=](RotatingMemory& memory) -> PointCall {
      const TensorView x = memory.activations(rows, hidden);
      const TensorView out = memory.activations(rows, hidden);
      return [=, &memory] {
        GluMlpArgs args;
        args.x = x;
        args.gate = memory.weight(format, inner, hidden);
        args.up = memory.weight(format, inner, hidden);
        args.down = memory.weight(format, hidden, inner);
        args.activation = kSitu;
        args.out = out;
        glu_mlp(memory.backend(), args);
        return plan::kernel_call(memory.backend(), args);
      };
    };
    add("glu_mlp",
        fmt::format("{} M={} D={} F={}", weight_format_name(format), rows, hidden, inner), set,
        prepare);
  }

  struct Moe {
    std::int64_t experts, top_k, width, inner;
  };
  void experts(F format, std::int64_t rows, const Moe& moe, std::int64_t set) {
    const auto prepare = [=](RotatingMemory& memory) -> PointCall {
      const TensorView z = memory.activations(rows, moe.width);
      const TensorView out = memory.activations(rows, moe.width);
      const float* weights = memory.vector(rows * moe.top_k);
      const std::vector<std::int32_t> choices = random_choices(rows, moe);
      const std::int32_t* ids = memory.ints(choices);
      std::vector<bool> used(static_cast<std::size_t>(moe.experts));
      for (const std::int32_t id : choices) used[static_cast<std::size_t>(id)] = true;
      const auto distinct = static_cast<double>(std::count(used.begin(), used.end(), true));
      const auto sets = std::make_shared<std::vector<ExpertSet>>();
      const auto bytes = static_cast<std::int64_t>(
          3 * distinct *
          static_cast<double>(WeightView{nullptr, nullptr, format, moe.inner, moe.width}.bytes()));
      for (std::int64_t i = 0; i < std::clamp<std::int64_t>(set / bytes, 1, kMostSets); ++i) {
        sets->push_back(expert_set(memory, format, moe, used));
      }
      return [=, &memory, turn = std::size_t{0}]() mutable {
        const ExpertSet& experts = (*sets)[turn++ % sets->size()];
        const ExpertMlpArgs args{.z = z,
                                 .ids = ids,
                                 .weights = weights,
                                 .top_k = static_cast<int>(moe.top_k),
                                 .experts = experts.weights,
                                 .table = experts.table.data(),
                                 .activation = kSitu,
                                 .out = out};
        expert_mlp(memory.backend(), args);
        return plan::kernel_call(memory.backend(), args, distinct);
      };
    };
    add("expert_mlp",
        fmt::format("{} M={} {} of {}, Z={} F={}", weight_format_name(format), rows, moe.top_k,
                    moe.experts, moe.width, moe.inner),
        set, prepare);
  }

  void route(std::int64_t rows, std::int64_t hidden, std::int64_t experts, int top_k,
             std::int64_t set) {
    const auto prepare = [=](RotatingMemory& memory) -> PointCall {
      const TensorView x = memory.activations(rows, hidden);
      const float* bias = memory.vector(experts);
      std::int32_t* ids = memory.ints(std::vector<std::int32_t>(rows * top_k));
      float* weights = const_cast<float*>(memory.vector(rows * top_k));
      return [=, &memory] {
        const WeightView weight = memory.weight(F::kBf16, experts, hidden);
        const RouteArgs args{
            .x = x, .weight = weight, .bias = bias, .top_k = top_k, .ids = ids, .weights = weights};
        baltoro::route(memory.backend(), args);
        return plan::kernel_call(memory.backend(), args);
      };
    };
    add("route", fmt::format("M={} D={} {} of {}", rows, hidden, top_k, experts), set, prepare);
  }

  void mix(std::int64_t rows, std::int64_t hidden, int sources, bool delta, std::int64_t set) {
    const auto prepare = [=](RotatingMemory& memory) -> PointCall {
      const DType dtype = memory.backend().activation_dtype();
      const TensorView out = memory.activations(rows, hidden);
      const float* norm = memory.vector(hidden);
      return [=, &memory] {
        const auto bytes = rows * hidden * static_cast<std::int64_t>(dtype_bytes(dtype));
        const auto source = [&] { return TensorView{memory.items(bytes), dtype, {rows, hidden}}; };
        std::vector<ConstTensorView> bank;
        for (int i = 1; i < sources; ++i) bank.push_back(source());
        MixNormArgs args;
        args.bank = bank;
        args.prefix = source();
        if (delta) args.delta = source();
        args.res_norm = args.res_proj = args.norm = norm;
        args.mix_eps = args.norm_eps = 1e-5f;
        args.out = out;
        mix_norm(memory.backend(), args);
        return plan::kernel_call(memory.backend(), args);
      };
    };
    add("mix_norm",
        fmt::format("M={} D={} {} sources{}", rows, hidden, sources, delta ? " and a sum" : ""),
        set, prepare);
  }

  void embed(std::int64_t rows, std::int64_t hidden, std::int64_t set) {
    const auto prepare = [=](RotatingMemory& memory) -> PointCall {
      constexpr std::int64_t kVocab = 16384;
      const TensorView out = memory.activations(rows, hidden);
      const auto batch = std::make_shared<EmbedBatch>();
      const Philox random(13, 0);
      for (std::int64_t r = 0; r < rows; ++r) {
        const std::uint32_t word = random.block(static_cast<std::uint64_t>(r))[0];
        batch->ids.push_back(static_cast<std::int32_t>(word % kVocab));
        batch->rows.push_back(
            {.first_row = r, .num_rows = 1, .origin = Origin::kGenerated, .pages = {}});
      }
      memory.set_batch({batch->ids, batch->rows});
      return [=, &memory] {
        const WeightView table = memory.weight(F::kBf16, kVocab, hidden);
        const EmbedArgs args{.table = table, .ids = batch->ids, .out = out};
        baltoro::embed(memory.backend(), args);
        return plan::kernel_call(memory.backend(), args);
      };
    };
    add("embed", fmt::format("M={} D={}", rows, hidden), set, prepare);
  }

 private:
  struct EmbedBatch {
    std::vector<std::int32_t> ids;
    std::vector<SequenceRows> rows;
  };
  // The experts of one call, and what a device reads of them.
  struct ExpertSet {
    std::vector<ExpertWeights> weights;
    Buffer table;
  };
  static constexpr std::int64_t kMostSets = 64;

  static ExpertSet expert_set(RotatingMemory& memory, F format, const Moe& moe,
                              const std::vector<bool>& used) {
    ExpertSet set;
    set.weights.resize(used.size());
    for (std::size_t e = 0; e < used.size(); ++e) {
      if (!used[e]) continue;
      set.weights[e].w1 = memory.weight(format, moe.inner, moe.width);
      set.weights[e].w3 = memory.weight(format, moe.inner, moe.width);
      set.weights[e].w2 = memory.weight(format, moe.width, moe.inner);
    }
    set.table = memory.backend().expert_table(set.weights);
    return set;
  }

  // top_k different experts a row, uniform.
  static std::vector<std::int32_t> random_choices(std::int64_t rows, const Moe& moe) {
    const Philox random(12, 0);
    std::vector<std::int32_t> ids;
    std::uint64_t counter = 0;
    for (std::int64_t r = 0; r < rows; ++r) {
      const auto begin = static_cast<std::ptrdiff_t>(ids.size());
      while (std::ssize(ids) - begin < moe.top_k) {
        const std::uint64_t word = random.block(counter++)[0];
        const auto id =
            static_cast<std::int32_t>(word * static_cast<std::uint64_t>(moe.experts) >> 32);
        if (std::find(ids.begin() + begin, ids.end(), id) == ids.end()) ids.push_back(id);
      }
    }
    return ids;
  }

  void add(const std::string& group, const std::string& shape, std::int64_t set,
           std::function<PointCall(RotatingMemory&)> prepare) {
    list_.push_back({group, fmt::format("{}, {} MiB", shape, set / kMiB), set, std::move(prepare)});
  }

  std::vector<OpPoint>& list_;
};

// A device takes a call of 4 MiB in the time of its launch.
void add_stream(Points& points, bool on_device) {
  if (on_device) {
    for (const std::int64_t mib : {8, 16, 24, 32, 40, 48, 64, 96, 128, 256}) {
      points.linear(F::kBf16, 1, 2048, mib < 32 ? 2048 : 8192, mib * kMiB, kStream);
    }
    return;
  }
  for (const std::int64_t mib : {4, 8, 12, 16, 24, 32, 40, 48, 64, 96, 128, 256}) {
    points.linear(F::kBf16, 1, 1024, 2048, mib * kMiB, kStream);
  }
}

// The matrices of Kimi-Linear-48B, and more rows than the host takes at a time.
void add_large(Points& points) {
  for (const F format : {F::kBf16, F::kMxfp4, F::kMxint8}) {
    for (const std::int64_t rows : {1, 8, 32, 128, 512, 2048}) {
      points.linear(format, rows, 2304, 4096, kMemoryBytes);
    }
  }
  for (const std::int64_t rows : {1, 4, 16, 64, 256, 2048}) {
    points.linear(F::kBf16, rows, 4096, 2304, kMemoryBytes);
  }
  for (const std::int64_t outputs : {128, 12288, 40960}) {
    points.linear(F::kBf16, 1, 2304, outputs, kMemoryBytes);
  }
  points.linear(F::kBf16, 1, 128, 4096, kMemoryBytes);
}

void add_large_ffn(Points& points) {
  for (const F format : {F::kBf16, F::kMxint8}) {
    for (const std::int64_t rows : {1, 8, 64, 512})
      points.glu(format, rows, 2304, 1024, kMemoryBytes);
  }
  for (const std::int64_t rows : {1, 64}) points.glu(F::kBf16, rows, 2304, 9216, kMemoryBytes);
}

void add_products(Points& points) {
  for (const F format : {F::kBf16, F::kMxfp4, F::kMxint8}) {
    for (const std::int64_t rows : {1, 2, 4, 8, 16, 64, 512}) {
      points.linear(format, rows, 1024, 1024, kCachedBytes);
    }
    for (const std::int64_t rows : {1, 8, 64, 512}) {
      points.linear(format, rows, 256, 1024, kCachedBytes);
    }
    for (const std::int64_t cols : {256, 512, 1024, 2048, 4096}) {
      points.linear(format, 1, cols, 2 * kMiB / cols, kMemoryBytes);
    }
    for (const std::int64_t rows : {2, 4, 16, 64}) {
      points.linear(format, rows, 1024, 2048, kMemoryBytes);
    }
    points.linear(format, 2, 512, 4096, kMemoryBytes);
    points.linear(format, 2, 2048, 1024, kMemoryBytes);
    points.linear(format, 4, 256, 4096, kMemoryBytes);
    for (const std::int64_t rows : {2, 4, 16}) points.linear(format, rows, 256, 256, kCachedBytes);
    points.linear(format, 1, 256, 128, kCachedBytes);
    points.linear(format, 1, 128, 256, kCachedBytes);
  }
}

void add_glu(Points& points) {
  for (const F format : {F::kBf16, F::kMxint8}) {
    for (const std::int64_t rows : {1, 4, 16, 64, 256}) {
      points.glu(format, rows, 768, 768, kCachedBytes);
    }
    for (const std::int64_t rows : {1, 2, 8, 32})
      points.glu(format, rows, 1024, 1536, kMemoryBytes);
    for (const std::int64_t rows : {1, 2, 4, 16, 64}) {
      points.glu(format, rows, 256, 256, kCachedBytes);
    }
    for (const std::int64_t inner : {512, 1024}) points.glu(format, 1, 256, inner, kCachedBytes);
    points.glu(format, 1, 1024, 512, kCachedBytes);
    points.glu(format, 1, 1024, 1024, kMemoryBytes);
    points.glu(format, 1, 256, 512, kMemoryBytes);
  }
}

void add_experts(Points& points, bool on_device) {
  const Points::Moe large{64, 8, 512, 384}, little{16, 4, 128, 128}, wide{256, 8, 2304, 1024};
  for (const F format : {F::kMxfp4, F::kMxint8, F::kBf16}) {
    for (const std::int64_t rows : {1, 8, 16, 32, 64, 128, 256, 512}) {
      points.experts(format, rows, {16, 8, 512, 384}, 24 * kMiB);
    }
    for (const std::int64_t rows : {1, 4, 16, 64, 256})
      points.experts(format, rows, large, kMemoryBytes);
    for (const std::int64_t rows : {1, 2, 4, 16, 64, 512}) {
      points.experts(format, rows, little, kCachedBytes);
    }
  }
  if (on_device) {
    for (const std::int64_t rows : {1, 4, 16, 64, 512, 2048}) {
      points.experts(F::kBf16, rows, wide, 16 * kMemoryBytes);
    }
  }
  for (const std::int64_t rows : {1, 8, 64, 512}) points.route(rows, 1024, 64, 8, kCachedBytes);
  for (const std::int64_t rows : {1, 4}) points.route(rows, 256, 16, 4, kCachedBytes);
  points.route(64, 256, 16, 4, kCachedBytes);
  points.route(1, 1024, 64, 8, kMemoryBytes);
  points.route(1, 3584, 256, 8, kMemoryBytes);
}

void add_rows(Points& points) {
  for (const std::int64_t set : {kCachedBytes, kMemoryBytes}) {
    for (const int sources : {2, 5, 9}) points.mix(1, 1024, sources, true, set);
    for (const std::int64_t rows : {4, 64}) points.mix(rows, 1024, 5, true, set);
  }
  points.mix(512, 1024, 2, true, kMemoryBytes);
  points.mix(512, 1024, 9, true, kMemoryBytes);
  points.mix(1, 256, 1, false, kCachedBytes);
  points.mix(1, 256, 2, true, kCachedBytes);
  points.mix(1, 256, 5, true, kCachedBytes);
  points.mix(4, 256, 5, true, kCachedBytes);
  points.mix(64, 256, 1, false, kCachedBytes);
  points.mix(64, 256, 5, true, kCachedBytes);
  points.mix(512, 512, 1, false, kMemoryBytes);
  for (const std::int64_t rows : {1, 64, 512}) points.embed(rows, 1024, kMemoryBytes);
}

}  // namespace

std::vector<OpPoint> op_points(const Backend& backend) {
  const bool on_device = !backend.uses_host_memory();
  std::vector<OpPoint> list;
  Points points(list);
  add_stream(points, on_device);
  add_products(points);
  if (on_device) add_large(points);
  add_glu(points);
  if (on_device) add_large_ffn(points);
  add_experts(points, on_device);
  add_rows(points);
  add_sequence_points(list, on_device);
  return list;
}

}  // namespace baltoro
