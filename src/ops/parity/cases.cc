#include "ops/parity/cases.h"

namespace baltoro {
namespace {

constexpr Origin kPrompt = Origin::kPrompt;
constexpr Origin kGenerated = Origin::kGenerated;

void add_row_cases(std::vector<OpCase>& list) {
  using F = WeightFormat;
  for (const F format : {F::kF32, F::kBf16, F::kF16}) {
    list.push_back(make_case(EmbedCase{37, 19, 5, format}));
    list.push_back(make_case(LinearCase{1, 3, {1}, format}));
    list.push_back(make_case(LinearCase{1, 257, {33}, format}));
    list.push_back(make_case(LinearCase{7, 129, {5, 64, 1}, format}));
    list.push_back(make_case(LinearCase{65, 96, {130}, format}));
  }
  for (const std::int64_t rows : {1, 2, 3, 4, 5, 17, 33}) {
    list.push_back(make_case(LinearCase{rows, 320, {67, 8}, F::kBf16}));
  }
  list.push_back(make_case(LinearCase{1, 1, {1}, F::kBf16}));
  for (const F format : {F::kMxfp4, F::kMxint8}) {
    for (const std::int64_t rows : {1, 5, 34}) {
      list.push_back(make_case(LinearCase{rows, 32, {7}, format}));
      list.push_back(make_case(LinearCase{rows, 224, {35}, format}));
    }
  }
  for (const F format : {F::kF32, F::kBf16, F::kF16, F::kMxfp4, F::kMxint8}) {
    list.push_back(make_case(LinearCase{1, 3104, {130, 17}, format, true}));
  }
  // Around the tiles of fast kernels.
  for (const std::int64_t rows : {2, 8, 9, 16, 17, 32, 33, 64, 65, 130}) {
    for (const F format : {F::kBf16, F::kMxint8, F::kMxfp4}) {
      list.push_back(make_case(LinearCase{rows, 544, {67, 128, 1}, format, true}));
    }
    list.push_back(make_case(LinearCase{rows, 72, {300}, F::kBf16, true}));
  }
  list.push_back(make_case(LinearCase{3, 8, {5}, F::kBf16, true}));
  list.push_back(make_case(HeadCase{3, {2, 0}, 1024, 515, F::kBf16, true}));
  list.push_back(make_case(HeadCase{40, {2, 3, 4, 5, 6, 7, 8, 9, 10}, 320, 130, F::kBf16, true}));
  list.push_back(make_case(HeadCase{3, {2, 0}, 40, 515, F::kBf16}));
  list.push_back(make_case(HeadCase{1, {0}, 131, 1000, F::kF32}));
  list.push_back(make_case(HeadCase{9, {8, 3, 3, 0, 5}, 64, 129, F::kF16}));
  list.push_back(make_case(HeadCase{3, {2, 0}, 96, 131, F::kMxint8}));
  for (const int banked : {0, 1, 8}) {
    list.push_back(make_case(MixNormCase{1, 64, banked, false, false}));
    list.push_back(make_case(MixNormCase{5, 37, banked, true, false}));
    list.push_back(make_case(MixNormCase{3, 130, banked, true, true}));
  }
  list.push_back(make_case(MixNormCase{2, 1, 2, true, false}));
  list.push_back(make_case(MixNormCase{2, 33, 3, false, true}));
}

void add_ffn_cases(std::vector<OpCase>& list) {
  using F = WeightFormat;
  for (const ActivationKind kind : {ActivationKind::kSitu, ActivationKind::kSwiglu}) {
    list.push_back(make_case(GluCase{1, 64, 96, F::kBf16, kind, false}));
    list.push_back(make_case(GluCase{5, 33, 17, F::kBf16, kind, true}));
    list.push_back(make_case(GluCase{34, 40, 72, F::kF32, kind, true}));
    list.push_back(make_case(GluCase{5, 64, 96, F::kMxint8, kind, true}));
    for (const std::int64_t rows : {1, 8, 17, 40, 65, 130}) {
      list.push_back(make_case(GluCase{rows, 264, 136, F::kBf16, kind, rows != 8, true}));
      list.push_back(make_case(GluCase{rows, 128, 96, F::kMxint8, kind, rows == 8, true}));
    }
    list.push_back(make_case(ExpertCase{1, 32, 64, 5, 2, F::kMxfp4, kind}));
    list.push_back(make_case(ExpertCase{9, 64, 96, 7, 3, F::kMxfp4, kind}));
    list.push_back(make_case(ExpertCase{37, 96, 32, 6, 4, F::kMxfp4, kind}));
    list.push_back(make_case(ExpertCase{11, 37, 19, 4, 4, F::kBf16, kind}));
  }
  list.push_back(make_case(ExpertCase{3, 24, 40, 1, 1, F::kF32, ActivationKind::kSitu}));
  list.push_back(make_case(ExpertCase{3, 24, 40, 3, 2, F::kF16, ActivationKind::kSitu}));
  list.push_back(make_case(RouteCase{1, 64, 16, 4, true, false, false}));
  list.push_back(make_case(RouteCase{7, 129, 33, 8, true, false, false}));
  list.push_back(make_case(RouteCase{4, 96, 256, 8, false, false, false}));
  list.push_back(make_case(RouteCase{3, 40, 21, 6, true, true, false}));
  list.push_back(make_case(RouteCase{3, 40, 21, 6, true, false, true}));
  list.push_back(make_case(RouteCase{2, 8, 3, 3, true, false, false}));
  list.push_back(make_case(RouteCase{2, 8, 1, 1, true, false, false}));
}

// Every kind of sequence at once: long and short prompts, one that goes on in the middle of a block
// and one at its end, single generated tokens, and a boundary wanted in some.
std::vector<SequenceCase> mixed_batch() {
  return {{100, 0, kPrompt, true},     {1, 63, kGenerated, false}, {1, 5, kPrompt, false},
          {2, 130, kGenerated, false}, {70, 37, kPrompt, true},    {1, 63, kPrompt, true},
          {64, 64, kPrompt, true},     {1, 0, kGenerated, false}};
}

void add_kda_cases(std::vector<OpCase>& list) {
  const KdaShape small{2, 16, 16, 4, false};
  const KdaShape odd{3, 5, 7, 3, false};
  const KdaShape wide{1, 64, 128, 4, false};
  const KdaShape scalar{2, 16, 8, 4, true};
  const KdaShape no_history{2, 8, 8, 1, false};
  const auto add = [&](const char* name, const KdaShape& shape, std::vector<SequenceCase> batch,
                       std::optional<float> bound, bool gate = true) {
    KdaCase spec;
    spec.name = name;
    spec.shape = shape;
    spec.batch = std::move(batch);
    spec.gate_lower_bound = bound;
    spec.gate = gate;
    list.push_back(make_case(spec));
  };
  for (const std::optional<float> bound : {std::optional<float>(-5.0f), std::optional<float>()}) {
    const std::string gate = bound ? "bounded" : "softplus";
    add((gate + " small").c_str(), small, mixed_batch(), bound);
    add((gate + " odd").c_str(), odd, mixed_batch(), bound);
    add((gate + " wide").c_str(), wide, {{65, 0, kPrompt, true}, {1, 9, kGenerated, false}}, bound);
    add((gate + " per head").c_str(), scalar, mixed_batch(), bound);
    add((gate + " no gate").c_str(), small, {{33, 0, kPrompt, false}}, bound, false);
    add((gate + " W=1").c_str(), no_history, {{20, 3, kPrompt, false}, {3, 4, kGenerated, false}},
        bound);
    for (const std::int64_t rows : {1, 2, 15, 16, 17, 31, 32, 33, 63, 64, 127, 200}) {
      add((gate + " length").c_str(), odd, {{rows, 0, kPrompt, true}}, bound);
    }
    add((gate + " decode").c_str(), small,
        {{1, 64, kGenerated, false}, {1, 1, kGenerated, false}, {5, 300, kGenerated, false}},
        bound);
  }
}

void add_saturated_kda_cases(std::vector<OpCase>& list) {
  const auto add = [&](const std::string& name, std::optional<float> bound,
                       std::optional<float> constant, float shift) {
    KdaCase spec;
    spec.name = name;
    spec.shape = {2, 16, 24, 4, false};
    spec.batch = {{130, 0, kPrompt, true}, {70, 50, kPrompt, false}, {1, 3, kGenerated, false}};
    spec.gate_lower_bound = bound;
    spec.constant_decay = constant;
    spec.decay_shift = shift;
    if (shift != 0) spec.decay_scale = 30;
    list.push_back(make_case(spec));
  };
  for (const float logit : {-60.0f, -2.0f, 0.0f, 1.0f, 60.0f}) {
    add("bounded constant " + std::to_string(logit), -5.0f, logit, 0);
  }
  for (const float logit : {-60.0f, 0.0f, 5.0f, 1000.0f}) {
    add("softplus constant " + std::to_string(logit), std::nullopt, logit, 0);
  }
  add("bounded saturated either way", -5.0f, std::nullopt, 1);
  add("softplus from none to strong", std::nullopt, std::nullopt, 1);
}

void add_mla_cases(std::vector<OpCase>& list, bool fp8_latents = false) {
  const auto add = [&](const char* name, const MlaShape& shape, std::vector<SequenceCase> batch,
                       std::optional<float> theta = {}, bool gate = true) {
    MlaCase spec;
    spec.name = name;
    spec.shape = shape;
    spec.batch = std::move(batch);
    spec.rope_theta = theta;
    spec.gate = gate;
    spec.fp8_latents = fp8_latents;
    if (!fp8_latents || shape.kind != MlaKind::kGqa) list.push_back(make_case(spec));
  };
  const MlaShape latent{MlaKind::kLatent, 3, 0, 16, 8, 12, 24};
  const MlaShape odd{MlaKind::kLatent, 2, 0, 5, 3, 7, 9};
  const MlaShape unified{MlaKind::kLatent, 2, 0, 24, 0, 16, 40};
  const MlaShape mqa{MlaKind::kMqa, 3, 0, 32, 8, 16, 32};
  const MlaShape gqa{MlaKind::kGqa, 6, 2, 16, 0, 12, 0};
  add("latent", latent, mixed_batch());
  add("latent no gate", latent, {{9, 0, kPrompt, false}, {1, 9, kGenerated, false}}, {}, false);
  add("latent odd", odd, mixed_batch());
  add("latent rope", latent, mixed_batch(), 10000.0f);
  add("unified", unified, mixed_batch());
  add("mqa", mqa, mixed_batch());
  add("mqa rope", mqa, {{66, 10, kPrompt, false}, {2, 200, kGenerated, false}}, 1000.0f);
  add("gqa", gqa, mixed_batch());
  add("gqa one group per head", {MlaKind::kGqa, 3, 3, 8, 0, 8, 0}, mixed_batch());
  add("latent far", odd, {{3, 1000, kPrompt, false}, {1, 2047, kGenerated, false}});
  MlaCase f32;
  f32.name = "latent f32 weights";
  f32.shape = latent;
  f32.batch = {{70, 0, kPrompt, false}, {1, 64, kGenerated, false}};
  f32.format = WeightFormat::kF32;
  f32.fp8_latents = fp8_latents;
  list.push_back(make_case(f32));
}

}  // namespace

std::vector<OpCase> fp8_expert_cases() {
  constexpr ExpertActivations kFp8 = ExpertActivations::kFp8;
  constexpr WeightFormat kMxfp4 = WeightFormat::kMxfp4;
  std::vector<OpCase> list;
  for (const ActivationKind kind : {ActivationKind::kSitu, ActivationKind::kSwiglu}) {
    list.push_back(make_case(ExpertCase{1, 32, 64, 5, 2, kMxfp4, kind, kFp8}));
    list.push_back(make_case(ExpertCase{9, 64, 96, 7, 3, kMxfp4, kind, kFp8}));
    list.push_back(make_case(ExpertCase{37, 96, 32, 6, 4, kMxfp4, kind, kFp8}));
  }
  return list;
}

std::vector<OpCase> bf16_state_cases() {
  std::vector<OpCase> list;
  const auto add = [&](const char* name, const KdaShape& shape, std::vector<SequenceCase> batch) {
    KdaCase spec;
    spec.name = name;
    spec.shape = shape;
    spec.batch = std::move(batch);
    spec.gate_lower_bound = -5.0f;
    spec.state = DType::kBf16;
    list.push_back(make_case(spec));
  };
  add("small", {2, 16, 16, 4, false}, mixed_batch());
  add("odd", {3, 5, 7, 3, false}, mixed_batch());
  add("per head", {2, 16, 8, 4, true}, mixed_batch());
  add("released head", {2, 128, 128, 4, false},
      {{100, 0, kPrompt, true}, {1, 63, kGenerated, false}, {3, 130, kGenerated, false}});
  add("decode", {2, 16, 16, 4, false},
      {{1, 64, kGenerated, false}, {1, 1, kGenerated, false}, {5, 300, kGenerated, false}});
  return list;
}

std::vector<OpCase> fp8_latent_cases() {
  std::vector<OpCase> list;
  add_mla_cases(list, true);
  return list;
}

std::vector<OpCase> op_cases() {
  std::vector<OpCase> list;
  add_row_cases(list);
  add_ffn_cases(list);
  add_kda_cases(list);
  add_saturated_kda_cases(list);
  add_mla_cases(list);
  return list;
}

}  // namespace baltoro
