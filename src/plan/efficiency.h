// What share of a machine's peaks its kernels and links reach, and what they add to the roofline.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "plan/curve.h"
#include "plan/hardware.h"
#include "plan/network.h"
#include "plan/part.h"

namespace baltoro::plan {

// One part: the time of its kernels is
//   max(flops / (F e_F(rows)), bytes / (B e_B(bytes of one call)), scan) + calls * fixed_seconds
// rows: those that one weight matrix meets.
struct PartRates {
  Curve flops;
  Curve bandwidth;
  double fixed_seconds = 0;
};

struct Calibration;

struct Efficiency {
  enum class Kind : std::uint8_t { kDatasheet, kTypical, kMeasured };
  Kind kind = Kind::kDatasheet;
  std::array<PartRates, kNumParts> parts;
  double inside_links = 1;
  double outside_links = 1;
  bool latencies = false;       // of collectives, and the fixed time a layer
  bool executed_flops = false;  // time counts what the usual algorithm executes, not the ideal
  double tile_rows = 1;         // rows that grouped products pad an expert to
  // Measured over predicted time: from the least to the largest of what is known. Of typical rates,
  // the public runs of docs/cost-model.md.
  std::pair<double, double> residuals = {1, 1};
  // kMeasured: the kernels whose times take the place of `parts` (measured.h).
  std::shared_ptr<const Calibration> calibration;

  // "bound": no run is faster, and most are far slower. "estimate": by what others measured.
  // "prediction": by what this machine did.
  const char* result_name() const;
};

const char* efficiency_name(Efficiency::Kind kind);
// datasheet: every peak is reached and nothing else takes time. typical: shares that public
// kernels reach (docs/cost-model.md).
Efficiency datasheet_efficiency();
Efficiency typical_efficiency(const Hardware& hardware);
// "datasheet" or "typical"; measured rates come from a calibration.
Efficiency parse_efficiency(std::string_view text, const Hardware& hardware);

// Rates of the links of a machine at this efficiency.
LinkRates link_rates(const Hardware& hardware, const Efficiency& efficiency);

// Which matrix units a product runs on.
struct MmaPath {
  const char* name = "";  // "W4A8"
  double flops = 0;
  std::string reason;
};
// By the format of the weights and what the machine has: FP8 products for FP8, and for MXFP4 where
// there are 4-bit units (MXFP8 activations, as the model was trained); FP4 products for NVFP4;
// BF16 products, with weights converted on the way, for all else.
MmaPath mma_path(const Hardware& hardware, Format weights);

}  // namespace baltoro::plan
