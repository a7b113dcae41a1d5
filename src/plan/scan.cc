#include "plan/scan.h"

#include <cmath>

namespace baltoro::plan {

double scan_seconds(double heads, std::int64_t sequences, std::int64_t tokens, double processors,
                    double chunk_seconds) {
  if (processors <= 0) return 0;
  const double waves = std::ceil(heads * static_cast<double>(sequences) / processors);
  const double chunks = std::ceil(static_cast<double>(tokens) / static_cast<double>(kScanChunk));
  return waves * chunks * chunk_seconds;
}

}  // namespace baltoro::plan
