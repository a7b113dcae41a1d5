// Cases of the benchmarks: the shapes of Kimi K3 (D 7168, 96 heads, experts 3584 x 3072) and of
// Kimi Linear 48B (D 2304, 32 heads, experts 2304 x 1024), cut along the outputs, heads or experts
// where the whole would take gigabytes or the reference minutes.
#include "ops/parity/cases.h"

namespace baltoro {
namespace {

using F = WeightFormat;
constexpr Origin kPrompt = Origin::kPrompt;
constexpr Origin kGenerated = Origin::kGenerated;

void add_matrices(std::vector<OpCase>& list) {
  // q, k, v and gate of a quarter of K3's heads; q, k and v of Kimi Linear; one projection alone.
  list.push_back(make_case(LinearCase{1, 7168, {3072, 3072, 3072, 3072}, F::kBf16}));
  list.push_back(make_case(LinearCase{1, 2304, {4096, 4096, 4096}, F::kBf16}));
  list.push_back(make_case(LinearCase{1, 1024, {1536}, F::kBf16}));
  list.push_back(make_case(LinearCase{4, 7168, {3072}, F::kBf16}));
  list.push_back(make_case(LinearCase{32, 7168, {2048}, F::kBf16}));
  list.push_back(make_case(LinearCase{64, 1024, {1024}, F::kBf16}));
  list.push_back(make_case(LinearCase{512, 1024, {1024}, F::kBf16}));
  list.push_back(make_case(LinearCase{128, 4096, {1024}, F::kBf16}));
  list.push_back(make_case(LinearCase{1, 3584, {3072, 3072, 3072, 3072}, F::kMxfp4}));
  list.push_back(make_case(LinearCase{64, 3584, {1536}, F::kMxfp4}));
  list.push_back(make_case(LinearCase{512, 1024, {1024}, F::kMxfp4}));
  list.push_back(make_case(LinearCase{1, 7168, {2048}, F::kF32}));
  list.push_back(make_case(HeadCase{1, {0}, 2304, 40960, F::kBf16}));
  list.push_back(make_case(EmbedCase{16384, 7168, 64, F::kBf16}));
}

void add_ffn(std::vector<OpCase>& list) {
  constexpr ActivationKind kSitu = ActivationKind::kSitu;
  constexpr ActivationKind kSwiglu = ActivationKind::kSwiglu;
  list.push_back(make_case(GluCase{1, 7168, 3072, F::kBf16, kSitu, false}));
  list.push_back(make_case(GluCase{32, 2304, 1024, F::kBf16, kSwiglu, true}));
  list.push_back(make_case(GluCase{256, 1024, 768, F::kBf16, kSitu, true}));
  // Half of the chosen experts of a K3 layer.
  list.push_back(make_case(ExpertCase{1, 3584, 3072, 8, 8, F::kMxfp4, kSitu}));
  list.push_back(make_case(ExpertCase{1, 2304, 1024, 8, 8, F::kMxfp4, kSwiglu}));
  list.push_back(make_case(ExpertCase{1, 2304, 1024, 8, 8, F::kBf16, kSwiglu}));
  list.push_back(make_case(ExpertCase{16, 2304, 1024, 32, 8, F::kMxfp4, kSwiglu}));
  list.push_back(make_case(ExpertCase{256, 512, 384, 64, 8, F::kMxfp4, kSitu}));
  list.push_back(make_case(RouteCase{1, 7168, 896, 16, true, false, false}));
  list.push_back(make_case(RouteCase{64, 7168, 896, 16, true, false, false}));
  list.push_back(make_case(MixNormCase{1, 7168, 8, true, false}));
  list.push_back(make_case(MixNormCase{64, 7168, 8, true, false}));
}

void add_sequences(std::vector<OpCase>& list) {
  const auto add_kda = [&](const char* name, std::int64_t heads, std::vector<SequenceCase> batch) {
    KdaCase spec;
    spec.name = name;
    spec.shape = {heads, 128, 128, 4, false};
    spec.batch = std::move(batch);
    spec.gate_lower_bound = -5.0f;
    list.push_back(make_case(spec));
  };
  const SequenceCase one{1, 64, kGenerated, false};
  add_kda("H=96 decode", 96, {one});
  add_kda("H=96 decode", 96, std::vector<SequenceCase>(8, one));
  add_kda("H=32 decode", 32, {one});
  add_kda("H=12 decode", 12, {one});
  add_kda("H=12 prefill", 12, {{512, 0, kPrompt, false}});
  add_kda("H=32 prefill", 32, {{256, 0, kPrompt, false}});

  const auto add_mla = [&](const char* name, std::int64_t heads, std::vector<SequenceCase> batch) {
    MlaCase spec;
    spec.name = name;
    spec.shape = {MlaKind::kLatent, heads, heads, 128, 64, 128, 512};
    spec.batch = std::move(batch);
    list.push_back(make_case(spec));
  };
  add_mla("H=96 decode", 96, {{1, 4096, kGenerated, false}});
  add_mla("H=32 decode", 32, {{1, 4096, kGenerated, false}});
  add_mla("H=32 decode", 32, {{1, 16384, kGenerated, false}});
  add_mla("H=12 prefill", 12, {{512, 0, kPrompt, false}});
  add_mla("H=12 prefill", 12, {{64, 1024, kPrompt, false}});
}

}  // namespace

std::vector<OpCase> bench_cases() {
  std::vector<OpCase> list;
  add_matrices(list);
  add_ffn(list);
  add_sequences(list);
  return list;
}

}  // namespace baltoro
