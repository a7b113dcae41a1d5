// Quantises one matrix as a stream of row blocks, and measures what that costs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "core/parallel.h"
#include "io/checkpoint_files.h"
#include "io/safetensors_writer.h"
#include "model/quantize_plan.h"

namespace baltoro {

// The difference between the stored values before and after.
struct QuantizeError {
  double squares = 0;        // sum of v^2 before
  double error_squares = 0;  // sum of (after - before)^2
  double largest = 0;        // max |after - before|

  // Normalised mean square error; 0 for a matrix of zeros.
  double nmse() const { return squares > 0 ? error_squares / squares : 0; }
};

// One thread at a time. Holds a block of rows of the source and its codes, and the scales of one
// matrix, a byte for each 32 values.
class TensorQuantizer {
 public:
  explicit TensorQuantizer(ThreadPool& pool) : pool_(pool) {}

  // Appends what output_tensors() declares. The numbers do not depend on the size of the pool.
  // `progress` gets the bytes read so far of this tensor. Throws Error{kBadModel} for NaN or infinity
  // in the source, Error{kIo}.
  QuantizeError write(const CheckpointFiles& files, const TensorInfo& tensor, QuantizeAction action,
                      SafetensorsWriter& writer,
                      const std::function<void(std::uint64_t)>& progress);

 private:
  void copy(const FileReader& file, const TensorInfo& tensor, SafetensorsWriter& writer,
            const std::function<void(std::uint64_t)>& progress);
  QuantizeError quantize(const FileReader& file, const TensorInfo& tensor, QuantizeAction action,
                         SafetensorsWriter& writer,
                         const std::function<void(std::uint64_t)>& progress);
  void add_errors(const std::string& where, std::int64_t first, QuantizeError& total) const;

  ThreadPool& pool_;
  std::vector<std::byte> source_;
  std::vector<std::uint8_t> codes_;
  std::vector<std::uint8_t> scales_;
  std::vector<QuantizeError> errors_;  // of each row of a block
};

}  // namespace baltoro
