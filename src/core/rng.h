// Philox4x32-10 (Salmon et al., SC'11): a counter-based generator, so that a random number depends
// on (seed, stream, index) alone.
#pragma once

#include <array>
#include <cstdint>

namespace baltoro {

class Philox {
 public:
  constexpr Philox(std::uint64_t seed, std::uint64_t stream) : seed_(seed), stream_(stream) {}

  // Four independent 32-bit words for counter `index`.
  constexpr std::array<std::uint32_t, 4> block(std::uint64_t index) const {
    std::array<std::uint32_t, 4> c = {lo(index), hi(index), lo(stream_), hi(stream_)};
    std::uint32_t k0 = lo(seed_), k1 = hi(seed_);
    for (int round = 0; round < 10; ++round) {
      const std::uint64_t p0 = std::uint64_t{0xD2511F53u} * c[0];
      const std::uint64_t p1 = std::uint64_t{0xCD9E8D57u} * c[2];
      c = {hi(p1) ^ c[1] ^ k0, lo(p1), hi(p0) ^ c[3] ^ k1, lo(p0)};
      k0 += 0x9E3779B9u;
      k1 += 0xBB67AE85u;
    }
    return c;
  }

  // Uniform in [0, 1) with 24 bits.
  constexpr float uniform(std::uint64_t index) const {
    return static_cast<float>(block(index)[0] >> 8) * 0x1p-24f;
  }

 private:
  static constexpr std::uint32_t lo(std::uint64_t x) { return static_cast<std::uint32_t>(x); }
  static constexpr std::uint32_t hi(std::uint64_t x) { return static_cast<std::uint32_t>(x >> 32); }
  std::uint64_t seed_;
  std::uint64_t stream_;
};

}  // namespace baltoro
