// The safetensors container: u64 header length N, N bytes of JSON {name: {dtype, shape,
// data_offsets: [begin, end]}}, then the data. The header is untrusted: every number in it is
// checked against the file before anything uses it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/tensor_view.h"
#include "io/file_reader.h"

namespace baltoro {

struct TensorInfo {
  std::string name;
  DType dtype = DType::kF32;
  Shape shape;
  std::uint32_t file = 0;    // index of the shard
  std::uint64_t offset = 0;  // of the first byte in that file
  std::uint64_t bytes = 0;
};

// Bytes of the data part that belong to no tensor; harmless, but worth a report.
struct DataHole {
  std::uint64_t offset = 0;  // in the file
  std::uint64_t bytes = 0;
};

struct SafetensorsHeader {
  std::vector<TensorInfo> tensors;  // in file order
  std::vector<DataHole> holes;
};

// The limit of the reference implementation; larger headers are refused as absurd.
constexpr std::uint64_t kMaxSafetensorsHeaderBytes = 100'000'000;

// Checks and decodes the JSON of a header. `data_begin` is the offset of the data part and
// `file_bytes` the size of the file. Throws Error{kBadModel} naming `where` and the tensor for:
// malformed JSON, a duplicate name or field, a missing field, an unknown dtype, more than 4
// dimensions, a shape whose size overflows or differs from the offsets, offsets outside of the
// file, overlapping tensors.
SafetensorsHeader parse_safetensors_header(std::string_view json, std::uint64_t data_begin,
                                           std::uint64_t file_bytes, const std::string& where);

// Reads and parses the header of a file. Besides the above, a file shorter than its header says and
// a header above the limit are Error{kBadModel}.
SafetensorsHeader read_safetensors_header(const FileReader& file);

}  // namespace baltoro
