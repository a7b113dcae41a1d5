#include "measure/device_suite.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <numeric>

#include "core/rng.h"
#include "model/random_fill.h"
#include "ops/expert_mlp.h"
#include "ops/glu_mlp.h"
#include "ops/kda.h"
#include "ops/latent_page.h"
#include "ops/linear.h"
#include "ops/mix_norm.h"
#include "ops/mla.h"
#include "ops/parity/cases.h"
#include "ops/parity/compare.h"
#include "ops/route.h"

namespace baltoro {
namespace {

constexpr std::int64_t kHidden = 7168;
constexpr Activation kSitu{ActivationKind::kSitu, 4, 25};
// Three times the second-level cache of the largest GPU at hand.
constexpr double kRotatedBytes = 190e6;

// What a case owns: device memory, and the host arrays that its batches view.
struct SuiteMemory {
  explicit SuiteMemory(Backend& b) : backend(b), random(b) {}

  void* take(std::int64_t bytes, const char* what) {
    buffers.push_back(
        backend.allocate(static_cast<std::size_t>(std::max<std::int64_t>(bytes, 16)), what));
    return buffers.back().data();
  }
  WeightView weight(std::int64_t rows, std::int64_t cols, WeightFormat format) {
    WeightView view{nullptr, nullptr, format, rows, cols};
    view.data = take(rows * view.row_bytes(), "weights of a benchmark");
    if (view.grouped()) {
      view.scales = static_cast<const std::uint8_t*>(take(rows * view.scale_cols(), "scales"));
    }
    random.fill(view);
    return view;
  }
  // Values uniform in about [-1, 1).
  TensorView values(std::int64_t rows, std::int64_t cols) {
    return values(rows, cols, backend.activation_dtype());
  }
  TensorView values(std::int64_t rows, std::int64_t cols, DType dtype) {
    const auto bytes = rows * cols * static_cast<std::int64_t>(dtype_bytes(dtype));
    TensorView view{take(bytes, "activations of a benchmark"), dtype, {rows, cols}};
    const auto format = dtype == DType::kBf16 ? WeightFormat::kBf16 : WeightFormat::kF32;
    random.fill({view.data, nullptr, format, rows * cols / 4, 4});
    return view;
  }
  // An MLA cache of random latents.
  MlaCache cache(const MlaShape& shape, std::int64_t num_pages, DType dtype) {
    if (dtype != DType::kE4m3) {
      return {values(num_pages * kBlockTokens, shape.cache_width(), dtype).data, dtype, num_pages};
    }
    // One page over and over: a cache in fp8 is made on the host.
    const LatentPage layout(shape);
    const Philox draw(7, 0);
    std::vector<std::byte> page(static_cast<std::size_t>(layout.bytes()));
    std::vector<float> row(static_cast<std::size_t>(shape.cache_width()));
    for (std::int64_t t = 0; t < kBlockTokens; ++t) {
      for (std::size_t i = 0; i < row.size(); ++i) {
        row[i] = 2 * draw.uniform(static_cast<std::uint64_t>(t) * row.size() + i) - 1;
      }
      write_latent(layout, page.data(), t, row);
    }
    auto* to = static_cast<std::byte*>(take(num_pages * layout.bytes(), "latents of a benchmark"));
    backend.copy(to, page.data(), page.size());
    for (std::int64_t done = 1; done < num_pages; done *= 2) {
      const std::int64_t more = std::min(done, num_pages - done);
      backend.copy_in_order(to + done * layout.bytes(), to,
                            static_cast<std::size_t>(more * layout.bytes()));
    }
    return {to, dtype, num_pages};
  }
  template <typename T>
  T* upload(const std::vector<T>& host) {
    const auto bytes = static_cast<std::int64_t>(host.size() * sizeof(T));
    auto* to = static_cast<T*>(take(bytes, "inputs of a benchmark"));
    backend.copy(to, host.data(), static_cast<std::size_t>(bytes));
    return to;
  }
  // f32, uniform in [low, high).
  float* vector(std::int64_t count, float low, float high) {
    const Philox draw(9, static_cast<std::uint64_t>(count));
    std::vector<float> host;
    for (std::int64_t i = 0; i < count; ++i) {
      host.push_back(low + (high - low) * draw.uniform(static_cast<std::uint64_t>(i)));
    }
    return upload(host);
  }

  Backend& backend;
  RandomFill random;
  std::vector<Buffer> buffers;
  std::vector<std::int32_t> tokens;
  std::vector<std::int32_t> pages;
  std::vector<SequenceRows> sequences;
};

using Memory = std::shared_ptr<SuiteMemory>;

int sets_for(double bytes) {
  return std::clamp(static_cast<int>(std::ceil(kRotatedBytes / bytes)), 1, 64);
}

// `count` sequences of `rows` rows at `start`, with slots and pages of their own.
void make_batch(SuiteMemory& m, std::int64_t count, std::int64_t rows, std::int64_t start,
                Origin origin) {
  const std::int64_t pages_each = (start + rows + kBlockTokens - 1) / kBlockTokens;
  m.pages.resize(static_cast<std::size_t>(count * pages_each));
  std::iota(m.pages.begin(), m.pages.end(), 0);
  m.tokens.assign(static_cast<std::size_t>(count * rows), 0);
  for (std::int64_t i = 0; i < count; ++i) {
    m.sequences.push_back(
        {.first_row = i * rows,
         .num_rows = rows,
         .start_pos = start,
         .state_slot = static_cast<std::int32_t>(i),
         .boundary_slot = -1,
         .origin = origin,
         .pages = std::span(m.pages).subspan(static_cast<std::size_t>(i * pages_each),
                                             static_cast<std::size_t>(pages_each))});
  }
}

SuiteRun finish(const Memory& m, int sets, std::function<void(int)> call, bool recorded,
                const Cost& cost) {
  if (m->sequences.empty()) make_batch(*m, 1, 1, 0, Origin::kGenerated);
  return {m, std::move(call), sets, {m->tokens, m->sequences}, recorded, cost};
}

// Rows up to which an op decodes.
constexpr std::int64_t kDecodeRows = 256;

SuiteCase linear_case(const char* id, std::int64_t rows, std::int64_t cols,
                      std::vector<std::int64_t> outputs) {
  const auto total = std::accumulate(outputs.begin(), outputs.end(), std::int64_t{0});
  return {"linear", fmt::format("{} linear {}x{} M={}", id, total, cols, rows),
          [=](Backend& backend) {
            const auto m = std::make_shared<SuiteMemory>(backend);
            const int sets = sets_for(2.0 * static_cast<double>(total * cols));
            std::vector<LinearArgs> args;
            Cost cost;
            const TensorView x = m->values(rows, cols);
            for (int s = 0; s < sets; ++s) {
              LinearArgs one{.x = x};
              for (const std::int64_t n : outputs) {
                one.add(m->weight(n, cols, WeightFormat::kBf16), m->values(rows, n));
              }
              args.push_back(one);
            }
            for (int i = 0; i < args[0].num_outputs; ++i) {
              cost += linear_cost(rows, args[0].outputs[static_cast<std::size_t>(i)].weight);
            }
            const auto call = [args, &backend](int s) {
              linear(backend, args[static_cast<std::size_t>(s)]);
            };
            return finish(m, sets, call, rows <= kDecodeRows, cost);
          }};
}

SuiteCase glu_case(std::int64_t rows) {
  constexpr std::int64_t kInner = 6144;
  return {"glu_mlp", fmt::format("L4 shared expert {} M={}", kInner, rows), [=](Backend& backend) {
            const auto m = std::make_shared<SuiteMemory>(backend);
            const int sets = sets_for(6.0 * kInner * kHidden);
            std::vector<GluMlpArgs> args;
            for (int s = 0; s < sets; ++s) {
              args.push_back({.x = m->values(rows, kHidden),
                              .gate = m->weight(kInner, kHidden, WeightFormat::kBf16),
                              .up = m->weight(kInner, kHidden, WeightFormat::kBf16),
                              .down = m->weight(kHidden, kInner, WeightFormat::kBf16),
                              .activation = kSitu,
                              .add = m->values(rows, kHidden),
                              .out = m->values(rows, kHidden)});
            }
            const Cost cost = glu_mlp_cost(rows, args[0].gate, args[0].up, args[0].down);
            const auto call = [args, &backend](int s) {
              glu_mlp(backend, args[static_cast<std::size_t>(s)]);
            };
            return finish(m, sets, call, rows <= kDecodeRows, cost);
          }};
}

// 16 different experts of 896 for each row, uniform.
std::vector<std::int32_t> uniform_routes(std::int64_t rows, std::uint64_t seed) {
  constexpr std::int32_t kExperts = 896, kTopK = 16;
  const Philox draw(seed, 5);
  std::vector<std::int32_t> all(kExperts), ids;
  std::iota(all.begin(), all.end(), 0);
  std::uint64_t n = 0;
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int32_t k = 0; k < kTopK; ++k) {
      const auto left = static_cast<float>(kExperts - k);
      const auto pick = k + static_cast<std::int32_t>(draw.uniform(n++) * left);
      std::swap(all[static_cast<std::size_t>(k)],
                all[static_cast<std::size_t>(std::min(pick, kExperts - 1))]);
      ids.push_back(all[static_cast<std::size_t>(k)]);
    }
  }
  return ids;
}

std::size_t distinct(std::vector<std::int32_t> ids) {
  std::sort(ids.begin(), ids.end());
  return static_cast<std::size_t>(std::unique(ids.begin(), ids.end()) - ids.begin());
}

SuiteCase expert_case(std::int64_t rows, ExpertActivations activations = ExpertActivations::kSame) {
  constexpr std::int64_t kLatent = 3584, kInner = 3072, kExperts = 896;
  const bool fp8 = activations == ExpertActivations::kFp8;
  return {
      fp8 ? "expert_mlp, fp8 rows" : "expert_mlp",
      fmt::format("E1 experts MXFP4{} B={}", fp8 ? ", fp8 rows" : "", rows), [=](Backend& backend) {
        const auto m = std::make_shared<SuiteMemory>(backend);
        auto experts = std::make_shared<std::vector<ExpertWeights>>();
        for (std::int64_t e = 0; e < kExperts; ++e) {
          experts->push_back({m->weight(kInner, kLatent, WeightFormat::kMxfp4),
                              m->weight(kInner, kLatent, WeightFormat::kMxfp4),
                              m->weight(kLatent, kInner, WeightFormat::kMxfp4)});
        }
        m->buffers.push_back(backend.expert_table(*experts));
        const void* table = m->buffers.back().data();
        const int sets = rows <= kDecodeRows ? 8 : 2;
        std::vector<ExpertMlpArgs> args;
        double touched = 0;
        for (int s = 0; s < sets; ++s) {
          const std::vector<std::int32_t> ids = uniform_routes(rows, static_cast<std::uint64_t>(s));
          touched += static_cast<double>(distinct(ids)) / sets;
          args.push_back({.z = m->values(rows, kLatent),
                          .ids = m->upload(ids),
                          .weights = m->vector(rows * 16, 0.05f, 0.2f),
                          .top_k = 16,
                          .experts = *experts,
                          .table = table,
                          .activation = kSitu,
                          .expert_activations = activations,
                          .out = m->values(rows, kLatent)});
        }
        const Cost cost = expert_mlp_cost(rows, 16, touched, experts->front());
        const auto call = [args, experts, &backend](int s) {
          expert_mlp(backend, args[static_cast<std::size_t>(s)]);
        };
        return finish(m, sets, call, rows <= kDecodeRows, cost);
      }};
}

SuiteCase route_case(std::int64_t rows) {
  return {"route", fmt::format("R1 router top-16 of 896 T={}", rows), [=](Backend& backend) {
            const auto m = std::make_shared<SuiteMemory>(backend);
            const int sets = sets_for(2.0 * 896 * kHidden);
            std::vector<RouteArgs> args;
            for (int s = 0; s < sets; ++s) {
              args.push_back({.x = m->values(rows, kHidden),
                              .weight = m->weight(896, kHidden, WeightFormat::kBf16),
                              .bias = m->vector(896, -0.1f, 0.1f),
                              .top_k = 16,
                              .renormalize = true,
                              .scale = 2.5f,
                              .ids = m->upload(std::vector<std::int32_t>(
                                  static_cast<std::size_t>(rows * 16), 0)),
                              .weights = m->vector(rows * 16, 0, 1)});
            }
            const auto call = [args, &backend](int s) {
              route(backend, args[static_cast<std::size_t>(s)]);
            };
            return finish(m, sets, call, rows <= kDecodeRows, route_cost(rows, args[0].weight, 16));
          }};
}

SuiteCase mix_case(std::int64_t rows) {
  return {"mix_norm", fmt::format("A1 mix of 9 sources T={}", rows), [=](Backend& backend) {
            const auto m = std::make_shared<SuiteMemory>(backend);
            const int sets = sets_for(20.0 * static_cast<double>(rows * kHidden));
            auto banks = std::make_shared<std::vector<std::vector<ConstTensorView>>>();
            std::vector<MixNormArgs> args;
            for (int s = 0; s < sets; ++s) {
              banks->emplace_back();
              for (int i = 0; i < 8; ++i) banks->back().push_back(m->values(rows, kHidden));
              args.push_back({.bank = {},
                              .prefix = m->values(rows, kHidden),
                              .delta = {},
                              .res_norm = m->vector(kHidden, 0.8f, 1.2f),
                              .res_proj = m->vector(kHidden, -0.02f, 0.02f),
                              .norm = m->vector(kHidden, 0.8f, 1.2f),
                              .mix_eps = 1e-5f,
                              .norm_eps = 1e-5f,
                              .out = m->values(rows, kHidden)});
            }
            for (int s = 0; s < sets; ++s) {
              args[static_cast<std::size_t>(s)].bank = (*banks)[static_cast<std::size_t>(s)];
            }
            const auto call = [args, banks, &backend](int s) {
              mix_norm(backend, args[static_cast<std::size_t>(s)]);
            };
            return finish(m, sets, call, rows <= kDecodeRows,
                          mix_norm_cost(rows, kHidden, 9, false, backend.activation_dtype()));
          }};
}

SuiteCase kda_case(const char* id, std::int64_t heads, std::int64_t count, std::int64_t rows,
                   Origin origin, DType state = DType::kF32) {
  const bool decodes = origin == Origin::kGenerated;
  const std::string what =
      decodes ? fmt::format("decode B={}", count) : fmt::format("prefill {}x{}", count, rows);
  const bool half = state == DType::kBf16;
  return {half ? "kda_mix, bf16 state" : "kda_mix",
          fmt::format("{} KDA core H={} {}{}", id, heads, what, half ? ", bf16 state" : ""),
          [=](Backend& backend) {
            const auto m = std::make_shared<SuiteMemory>(backend);
            const KdaShape shape{heads, 128, 128, 4, false};
            make_batch(*m, count, rows, decodes ? 64 : 0, origin);
            KdaMixArgs args;
            args.shape = shape;
            args.batch = {m->tokens, m->sequences};
            const std::int64_t total = count * rows, width = heads * 128;
            args.q_conv = m->vector(width * 4, -0.5f, 0.5f);
            args.k_conv = m->vector(width * 4, -0.5f, 0.5f);
            args.v_conv = m->vector(width * 4, -0.5f, 0.5f);
            args.a_log = m->vector(heads, 0, 1);
            args.dt_bias = m->vector(width, -0.5f, 0.5f);
            args.o_norm = m->vector(128, 0.8f, 1.2f);
            args.gate_lower_bound = -5.0f;
            args.norm_eps = 1e-5f;
            const double set_bytes = static_cast<double>(total * width) * 12 +
                                     static_cast<double>(dtype_bytes(state)) *
                                         static_cast<double>(count * shape.state_elements()) +
                                     4.0 * static_cast<double>(count * shape.conv_elements());
            const int sets = sets_for(set_bytes);
            std::vector<KdaMixArgs> all;
            for (int s = 0; s < sets; ++s) {
              args.q = m->values(total, width);
              args.k = m->values(total, width);
              args.v = m->values(total, width);
              args.decay_logits = m->values(total, width);
              args.beta_logits = m->values(total, heads);
              args.gate = m->values(total, width);
              args.out = m->values(total, width);
              args.pool.num_slots = count;
              args.pool.state = m->values(count, shape.state_elements(), state).data;
              args.pool.dtype = state;
              args.pool.conv =
                  static_cast<float*>(m->values(count, shape.conv_elements(), DType::kF32).data);
              all.push_back(args);
            }
            const Cost cost =
                kda_mix_cost(shape, total, count, backend.activation_dtype(), origin, state);
            const auto call = [all, &backend](int s) {
              kda_mix(backend, all[static_cast<std::size_t>(s)]);
            };
            return finish(m, sets, call, decodes, cost);
          }};
}

SuiteCase mla_case(const char* id, std::int64_t heads, std::int64_t count, std::int64_t rows,
                   std::int64_t start, Origin origin, bool fp8 = false) {
  const bool decodes = origin == Origin::kGenerated;
  const std::string what = decodes ? fmt::format("decode B={} at {}", count, start)
                                   : fmt::format("prefill {}x{}", count, rows);
  return {fp8 ? "mla, fp8 latents" : "mla",
          fmt::format("{} MLA H={} {}{}", id, heads, what, fp8 ? ", fp8 latents" : ""),
          [=](Backend& backend) {
            const auto m = std::make_shared<SuiteMemory>(backend);
            const MlaShape shape{MlaKind::kLatent, heads, heads, 128, 64, 128, 512};
            make_batch(*m, count, rows, start, origin);
            const std::int64_t total = count * rows;
            MlaArgs args;
            args.shape = shape;
            args.batch = {m->tokens, m->sequences};
            args.kv_norm = m->vector(512, 0.8f, 1.2f);
            args.kv_norm_eps = 1e-6f;
            args.kv_b = m->weight(shape.kv_b_rows(), 512, WeightFormat::kBf16);
            const auto pages = static_cast<std::int64_t>(m->pages.size());
            const DType cached = fp8 ? DType::kE4m3 : backend.cache_dtype();
            const int sets = sets_for(static_cast<double>(pages * cache_page_bytes(shape, cached)));
            std::vector<MlaArgs> all;
            for (int s = 0; s < sets; ++s) {
              args.q = m->values(total, heads * shape.qk_dim());
              args.kv = m->values(total, shape.cache_width());
              args.gate = m->values(total, heads * 128);
              args.out = m->values(total, heads * 128);
              args.cache = m->cache(shape, pages, cached);
              all.push_back(args);
            }
            const DType dtype = backend.activation_dtype();
            Cost cost;
            for (std::int64_t i = 0; i < count; ++i) {
              cost += decodes ? mla_decode_cost(shape, start, dtype, cached)
                              : mla_prefill_cost(shape, rows, start, dtype, cached);
            }
            const auto call = [all, decodes, &backend](int s) {
              const MlaArgs& one = all[static_cast<std::size_t>(s)];
              decodes ? mla_decode(backend, one) : mla_prefill(backend, one);
            };
            return finish(m, sets, call, decodes, cost);
          }};
}

double seconds_of(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  return seconds.count();
}

}  // namespace

std::vector<SuiteCase> device_suite() {
  std::vector<SuiteCase> list;
  for (const std::int64_t rows : {1, 8, 32}) {
    list.push_back(linear_case("L1", rows, 7168, {12288}));
    list.push_back(linear_case("L1", rows, 12288, {7168}));
    list.push_back(linear_case("L1", rows, 7168, {3584}));
    list.push_back(linear_case("L1", rows, 3584, {7168}));
    list.push_back(
        linear_case("L1 q k v g b f", rows, 7168, {12288, 12288, 12288, 12288, 96, 128}));
    list.push_back(glu_case(rows));
  }
  list.push_back(linear_case("L2", 8192, 7168, {12288}));
  list.push_back(linear_case("L3 head", 1, 7168, {163840}));
  list.push_back(linear_case("L3 head", 32, 7168, {163840}));
  for (const std::int64_t rows : {1, 8, 32, 256, 1024, 8192}) list.push_back(expert_case(rows));
  for (const std::int64_t rows : {1, 32, 256, 1024, 8192}) {
    list.push_back(expert_case(rows, ExpertActivations::kFp8));
  }
  for (const std::int64_t rows : {1, 32, 256, 8192}) list.push_back(route_case(rows));
  for (const std::int64_t rows : {1, 32, 256, 8192}) list.push_back(mix_case(rows));
  constexpr Origin kPrompt = Origin::kPrompt, kGenerated = Origin::kGenerated;
  for (const std::int64_t n : {1, 32, 256}) list.push_back(kda_case("D1", 96, n, 1, kGenerated));
  for (const std::int64_t n : {1, 8, 32, 128}) list.push_back(kda_case("D2", 12, n, 1, kGenerated));
  for (const std::int64_t n : {1, 32, 256}) {
    list.push_back(kda_case("D1", 96, n, 1, kGenerated, DType::kBf16));
  }
  list.push_back(kda_case("K1", 96, 1, 8192, kPrompt));
  list.push_back(kda_case("K2", 96, 8, 1024, kPrompt));
  list.push_back(kda_case("K3", 12, 1, 8192, kPrompt));
  list.push_back(kda_case("K3", 12, 1, 65536, kPrompt));
  list.push_back(mla_case("M1", 96, 1, 8192, 0, kPrompt));
  list.push_back(mla_case("M1", 96, 1, 32768, 0, kPrompt));
  for (const std::int64_t n : {1, 32, 256}) {
    list.push_back(mla_case("M2", 96, n, 1, 8191, kGenerated));
  }
  for (const std::int64_t n : {1, 32}) {
    list.push_back(mla_case("M2", 96, n, 1, 131071, kGenerated));
  }
  list.push_back(mla_case("M2", 96, 1, 1, 1048575, kGenerated));
  for (const std::int64_t n : {1, 32}) {
    list.push_back(mla_case("M3", 12, n, 1, 131071, kGenerated));
  }
  list.push_back(mla_case("M1", 96, 1, 32768, 0, kPrompt, true));
  for (const std::int64_t heads : {96, 12}) {
    const char* id = heads == 96 ? "M2" : "M3";
    for (const std::int64_t n : {1, 32}) {
      list.push_back(mla_case(id, heads, n, 1, 131071, kGenerated, true));
    }
  }
  return list;
}

BenchRow time_suite_case(const SuiteCase& suite_case, Backend& backend, Roof& roof, int samples) {
  constexpr double kSampleSeconds = 2e-3;
  const SuiteRun run = suite_case.prepare(backend);
  BenchRow row;
  row.name = suite_case.name;
  row.work = {run.cost.flops, run.cost.bytes(), run.cost.updated_bytes};
  row.floor = roof.floor(1, row.work, backend.activations());
  int calls = 0;
  const auto ops = [&] {
    for (int i = 0; i < calls; ++i) run.call(i % run.num_sets);
  };
  const auto pass = [&] {
    run.recorded ? backend.run_pass(run.batch, std::ref(ops)) : ops();
    backend.synchronize();
  };
  // All sets once op by op: scratch memory grows, and tells how many calls make a sample.
  calls = run.num_sets;
  ops();
  backend.synchronize();
  const double once = seconds_of([&] {
    ops();
    backend.synchronize();
  });
  const double rounds = std::clamp(kSampleSeconds / once, 1.0, 200.0);
  calls = run.num_sets * static_cast<int>(rounds);
  for (int i = 0; i < 3; ++i) pass();  // a recorded pass: op by op, recorded, repeated
  for (int i = 0; i < samples; ++i) {
    row.samples.kept.push_back({seconds_of(pass) / calls, calls, std::nullopt});
  }
  return row;
}

std::string check_op(const std::string& op, Backend& reference, Backend& candidate) {
  std::string faults;
  for (const std::vector<OpCase>& cases :
       {op_cases(), bf16_state_cases(), fp8_expert_cases(), fp8_latent_cases(), bench_cases()}) {
    for (const OpCase& op_case : cases) {
      if (op_case.op == op) faults += check_parity(op_case, reference, candidate);
    }
  }
  return faults;
}

}  // namespace baltoro
