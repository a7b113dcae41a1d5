#include "cuda/batch_stage.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "core/error.h"
#include "cuda/memory.h"

namespace baltoro::cuda {
namespace {

constexpr std::size_t kAlign = 16;

// The offset at which the values were put.
template <typename T>
std::size_t append(std::vector<std::byte>& to, std::span<const T> values) {
  const std::size_t at = (to.size() + kAlign - 1) / kAlign * kAlign;
  to.resize(at + values.size_bytes());
  if (!values.empty()) std::memcpy(to.data() + at, values.data(), values.size_bytes());
  return at;
}

struct Tables {
  std::vector<DeviceSequence> sequences;
  std::vector<std::int32_t> pages;
  std::vector<std::int32_t> row_sequence;
  std::vector<DeviceBlock> blocks;
  std::vector<std::int32_t> first_block;
  std::size_t max_pages = 1;
};

void add_blocks(const SequenceRows& rows, std::int32_t index, std::vector<DeviceBlock>& blocks) {
  if (rows.origin == Origin::kGenerated) return;
  const std::int64_t end = rows.start_pos + rows.num_rows;
  const std::int64_t last_boundary = end / kBlockTokens * kBlockTokens;
  for (std::int64_t pos = rows.start_pos; pos < end;) {
    const std::int64_t next = std::min(end, (pos / kBlockTokens + 1) * kBlockTokens);
    blocks.push_back({index, static_cast<std::int32_t>(rows.first_row + pos - rows.start_pos),
                      static_cast<std::int32_t>(next - pos), next == last_boundary ? 1 : 0});
    pos = next;
  }
}

Tables tables_of(const BatchView& batch) {
  Tables t;
  for (const SequenceRows& rows : batch.sequences) {
    const auto index = static_cast<std::int32_t>(t.sequences.size());
    t.sequences.push_back({.start_pos = rows.start_pos,
                           .first_row = static_cast<std::int32_t>(rows.first_row),
                           .num_rows = static_cast<std::int32_t>(rows.num_rows),
                           .state_slot = rows.state_slot,
                           .boundary_slot = rows.boundary_slot,
                           .first_page = static_cast<std::int32_t>(t.pages.size()),
                           .is_generated = rows.origin == Origin::kGenerated ? 1 : 0});
    t.pages.insert(t.pages.end(), rows.pages.begin(), rows.pages.end());
    t.max_pages = std::max(t.max_pages, rows.pages.size());
    t.row_sequence.insert(t.row_sequence.end(), static_cast<std::size_t>(rows.num_rows), index);
    t.first_block.push_back(static_cast<std::int32_t>(t.blocks.size()));
    add_blocks(rows, index, t.blocks);
  }
  t.first_block.push_back(static_cast<std::int32_t>(t.blocks.size()));
  return t;
}

template <typename T>
const T* at(const std::byte* base, std::size_t offset) {
  return reinterpret_cast<const T*>(base + offset);
}

}  // namespace

const std::byte* BatchStage::upload(Region& region, const std::vector<std::byte>& content) {
  if (region.content == content) return static_cast<const std::byte*>(region.device.data());
  cudaStreamCaptureStatus capture = cudaStreamCaptureStatusNone;
  check(cudaStreamIsCapturing(stream_, &capture), "ask whether a graph is recorded");
  BALTORO_CHECK(capture == cudaStreamCaptureStatusNone,
                "a batch changed while its pass was recorded");
  if (region.device.bytes() < content.size()) {
    check(cudaStreamSynchronize(stream_), "finish the work on the old batch");
    region.device = device_buffer(std::bit_ceil(std::max<std::size_t>(content.size(), 65536)),
                                  "description of the batch");
  }
  // From pageable memory the call returns once the source may change.
  check(cudaMemcpyAsync(region.device.data(), content.data(), content.size(),
                        cudaMemcpyHostToDevice, stream_),
        "copy the batch's description to the device");
  region.content = content;
  return static_cast<const std::byte*>(region.device.data());
}

DeviceBatch BatchStage::batch(const BatchView& batch) {
  const Tables t = tables_of(batch);
  packed_.clear();
  // Pages last: their number changes from step to step, the other tables keep their places.
  const std::size_t sequences = append<DeviceSequence>(packed_, t.sequences);
  const std::size_t row_sequence = append<std::int32_t>(packed_, t.row_sequence);
  const std::size_t blocks = append<DeviceBlock>(packed_, t.blocks);
  const std::size_t first_block = append<std::int32_t>(packed_, t.first_block);
  const std::size_t pages = append<std::int32_t>(packed_, t.pages);
  const std::byte* base = upload(batch_, packed_);
  return {.sequences = at<DeviceSequence>(base, sequences),
          .pages = at<std::int32_t>(base, pages),
          .row_sequence = at<std::int32_t>(base, row_sequence),
          .blocks = at<DeviceBlock>(base, blocks),
          .first_block = at<std::int32_t>(base, first_block),
          .num_sequences = static_cast<std::int32_t>(t.sequences.size()),
          .num_rows = static_cast<std::int32_t>(batch.num_rows()),
          .num_blocks = static_cast<std::int32_t>(t.blocks.size()),
          .max_pages = static_cast<std::int32_t>(std::bit_ceil(t.max_pages))};
}

const std::int32_t* BatchStage::ints(std::span<const std::int32_t> values) {
  packed_.clear();
  append(packed_, values);
  return at<std::int32_t>(upload(ints_, packed_), 0);
}

const Draw* BatchStage::draws(std::span<const Draw> draws) {
  packed_.clear();
  append(packed_, draws);
  return at<Draw>(upload(draws_, packed_), 0);
}

}  // namespace baltoro::cuda
