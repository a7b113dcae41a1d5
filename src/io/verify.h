// Reads every tensor of a checkpoint and reports what no valid release has: NaN, infinity, scale
// bytes that stand for NaN, experts of zeros. And a checksum of each, to compare copies.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "io/checkpoint_files.h"

namespace baltoro {

struct TensorCheck {
  std::uint32_t tensor = 0;  // index into CheckpointFiles::tensors()
  std::uint32_t crc32 = 0;   // of its bytes, as zlib computes it
  std::uint64_t num_nan = 0;
  std::uint64_t num_inf = 0;
  std::uint64_t num_bad_scales = 0;  // bytes 255 of a `.weight_scale`
  std::uint64_t first_bad = 0;       // element index of the first of the three
  bool all_zero = false;             // every value is 0 or -0; scales never are
  bool zero_expert = false;          // all_zero in a matrix of a routed expert

  bool bad() const { return num_nan + num_inf + num_bad_scales > 0 || zero_expert; }
};

struct TensorVerifyOptions {
  int num_threads = 4;
  std::function<void(std::uint64_t bytes_done, std::uint64_t bytes_total)> progress = {};
};

// One entry a tensor, in the order of files.tensors(). `progress` is called from one thread at a
// time. Throws Error{kIo} when a read fails.
std::vector<TensorCheck> verify_tensors(const CheckpointFiles& files,
                                        const TensorVerifyOptions& options = {});

}  // namespace baltoro
