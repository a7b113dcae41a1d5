// The ragged batch in device memory. Ops stage the batch that they are called with; a batch of the
// same content is already there, so that a pass uploads it once and a recorded graph finds it at a
// fixed address.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/buffer.h"
#include "cuda/handle.h"
#include "ops/batch.h"
#include "ops/draw.h"

namespace baltoro::cuda {

struct DeviceSequence {
  std::int64_t start_pos;
  std::int32_t first_row;
  std::int32_t num_rows;
  std::int32_t state_slot;
  std::int32_t boundary_slot;
  std::int32_t first_page;    // of this sequence in DeviceBatch::pages
  std::int32_t is_generated;  // Origin::kGenerated
};

// A piece of a prompt that lies in one absolute block of kBlockTokens positions.
struct DeviceBlock {
  std::int32_t sequence;
  std::int32_t first_row;  // in the batch
  std::int32_t num_rows;
  std::int32_t is_last_full;  // ends at the sequence's last multiple of kBlockTokens: the state
                              // after it goes to the boundary slot
};

// Pointers are of device memory; counts are known to the host. Blocks of one sequence are
// consecutive and in time order, and there are none for generated rows.
struct DeviceBatch {
  const DeviceSequence* sequences;
  const std::int32_t* pages;         // of all sequences, one after the other
  const std::int32_t* row_sequence;  // [M] index into sequences
  const DeviceBlock* blocks;
  const std::int32_t* first_block;  // [num_sequences + 1] index into blocks
  std::int32_t num_sequences;
  std::int32_t num_rows;
  std::int32_t num_blocks;
  // The most pages that any sequence has, rounded up to a power of two: what launches may depend
  // on, so that a graph serves many positions.
  std::int32_t max_pages;
};

// One thread at a time. Uploads are ordered on the stream.
class BatchStage {
 public:
  explicit BatchStage(cudaStream_t stream) : stream_(stream) {}

  DeviceBatch batch(const BatchView& batch);
  // A list of integers in device memory, such as token ids.
  const std::int32_t* ints(std::span<const std::int32_t> values);
  const Draw* draws(std::span<const Draw> draws);

 private:
  // Device memory and the content that it holds.
  struct Region {
    Buffer device;
    std::vector<std::byte> content;
  };
  const std::byte* upload(Region& region, const std::vector<std::byte>& content);

  cudaStream_t stream_;
  std::vector<std::byte> packed_;
  Region batch_;
  Region ints_;
  Region draws_;
};

}  // namespace baltoro::cuda
