#include "plan/efficiency.h"

#include <algorithm>
#include <cmath>

#include "plan/key_value.h"

namespace baltoro::plan {
namespace {

// Bytes of routed experts that one layer reads on one GPU, against the share of its bandwidth:
// FlashInfer's K3 preset (pull request 5179), 18.6 MB an expert at 8 TB/s. What a share needs are
// bytes in flight, which go with the bandwidth.
Curve expert_read_curve(double bandwidth) {
  const double expert = 18.6e6 * bandwidth / 8e12;
  return Curve({{2 * expert, 0.206},
                {4 * expert, 0.274},
                {7.8 * expert, 0.279},
                {15 * expert, 0.399},
                {28.1 * expert, 0.5425},
                {49.1 * expert, 0.636},
                {76.6 * expert, 0.741}});
}

}  // namespace

const char* efficiency_name(Efficiency::Kind kind) {
  constexpr std::array kNames = {"datasheet", "typical", "measured"};
  return kNames[static_cast<std::size_t>(kind)];
}

const char* Efficiency::result_name() const {
  constexpr std::array kNames = {"bound", "estimate", "prediction"};
  return kNames[static_cast<std::size_t>(kind)];
}

Efficiency datasheet_efficiency() { return {}; }

Efficiency typical_efficiency(const Hardware& hardware) {
  Efficiency efficiency;
  efficiency.kind = Efficiency::Kind::kTypical;
  for (PartRates& part : efficiency.parts) part = {0.75, 0.85, 0};
  efficiency.parts[index_of(Part::kAttnCore)] = {0.6, 0.6, 0};
  efficiency.parts[index_of(Part::kRouted)].bandwidth =
      expert_read_curve(hardware.memory_bandwidth.value);
  efficiency.inside_links = 0.8;
  efficiency.outside_links = 0.8;
  efficiency.latencies = true;
  efficiency.executed_flops = true;
  efficiency.tile_rows = 16;
  efficiency.residuals = {0.7, 2.2};
  return efficiency;
}

Efficiency parse_efficiency(std::string_view text, const Hardware& hardware) {
  if (text == "datasheet") return datasheet_efficiency();
  if (text == "typical") return typical_efficiency(hardware);
  if (text == "measured") {
    fail(ErrorCode::kUsage,
         "--eff measured needs the rates of this machine: run `baltoro plan calibrate`, then "
         "--hw measured");
  }
  fail_unknown("--eff ", text, "efficiency", {"datasheet", "typical", "measured"});
}

LinkRates link_rates(const Hardware& hardware, const Efficiency& efficiency) {
  const bool bound = efficiency.kind == Efficiency::Kind::kDatasheet;
  LinkRates rates;
  rates.inside = hardware.scale_up_bandwidth.value * efficiency.inside_links;
  if (!bound && hardware.scale_up_real) rates.inside = hardware.scale_up_real.value;
  rates.outside = hardware.scale_out_bandwidth.value * efficiency.outside_links;
  if (efficiency.latencies) {
    rates.inside_latency = hardware.scale_up_latency.value;
    rates.outside_latency = hardware.scale_out_latency.value;
  }
  return rates;
}

MmaPath mma_path(const Hardware& hardware, Format weights) {
  const double bf16 = hardware.bf16_flops.value;
  switch (weights) {
    case Format::kFp8:
      if (hardware.fp8_flops) return {"FP8", hardware.fp8_flops.value, "FP8 weights on FP8 units"};
      return {"W8A16", bf16, "no FP8 units: weights widened to BF16"};
    case Format::kMxfp4:
      if (hardware.fp4_flops && hardware.fp8_flops) {
        return {"W4A8", hardware.fp8_flops.value,
                "4-bit units take MXFP4 with MXFP8 activations at the FP8 rate"};
      }
      return {"W4A16", bf16, "no 4-bit units: weights widened to BF16"};
    case Format::kNvfp4:
      if (hardware.fp4_flops) {
        return {"W4A4", hardware.fp4_flops.value, "NVFP4 weights on FP4 units"};
      }
      return {"W4A16", bf16, "no FP4 units: weights widened to BF16"};
    case Format::kInt4:
      return {"W4A16", bf16, "INT4 weights widened to BF16"};
    case Format::kInt8:
    case Format::kMxint8:
      return {"W8A16", bf16, "8-bit integer weights widened to BF16"};
    case Format::kF32:
    case Format::kBf16:
      break;
  }
  return {"BF16", bf16, "BF16 products"};
}

}  // namespace baltoro::plan
