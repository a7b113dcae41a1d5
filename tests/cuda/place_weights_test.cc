// What arrives on the GPU through its two pinned buffers is what was sent.
#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "cuda/backend.h"
#include "cuda/gpu.h"
#include "model/staged_copy.h"

namespace baltoro {
namespace {

TEST(CudaStagedCopy, ManyChunksArriveWhole) {
  BALTORO_NEEDS_GPU();
  const auto device = make_cuda_backend({});
  constexpr std::size_t kBytes = (std::size_t{48} << 20) + 123;
  std::vector<std::uint32_t> source(kBytes / 4 + 1), back(source.size());
  for (std::size_t i = 0; i < source.size(); ++i) {
    source[i] = static_cast<std::uint32_t>(i * 2654435761u);
  }
  Buffer target = device->allocate(kBytes, "a target");
  for (const std::size_t chunk : {std::size_t{1} << 20, (std::size_t{5} << 20) + 64}) {
    device->clear(target.data(), kBytes);
    std::size_t sent = 0;
    StagedCopy staged(
        *device, nullptr, kBytes, [&](std::uint64_t bytes) { sent += bytes; }, chunk);
    auto* to = static_cast<std::byte*>(target.data());
    auto* from = reinterpret_cast<const std::byte*>(source.data());
    constexpr std::size_t kFirst = kBytes / 3;
    staged.add(to, from, kFirst);
    staged.add(to + kFirst, from + kFirst, kBytes - kFirst);
    staged.finish();
    device->copy(back.data(), target.data(), kBytes);
    EXPECT_EQ(0, std::memcmp(source.data(), back.data(), kBytes)) << chunk;
    EXPECT_EQ(sent, kBytes);
  }
}

}  // namespace
}  // namespace baltoro
