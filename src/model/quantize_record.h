// What a `quantize` has finished, in DST/quantize: plan.json says which source and which arguments,
// and one JSON file for each finished shard holds its size, checksum and errors. A run that was
// killed goes on from there; after a whole run they are its report.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "io/checkpoint_files.h"
#include "model/quantize_plan.h"
#include "model/quantize_tensor.h"

namespace baltoro {

// One matrix that was quantised.
struct QuantizedTensor {
  std::string name;  // of the source: "model.layers.3.mlp.up_proj.weight"
  std::string component;
  QuantizeAction action = QuantizeAction::kMxfp4;
  std::int64_t values = 0;
  std::uint64_t bytes_in = 0;
  std::uint64_t bytes_out = 0;
  QuantizeError error;
};

// What decides the bytes of the output: files (name, size, time of change), configuration and
// targets. Throws Error{kIo}.
nlohmann::ordered_json quantize_arguments(const std::string& config_text,
                                          const CheckpointFiles& files,
                                          const QuantizeTargets& targets);

// One thread at a time. All members throw Error{kIo}.
class QuantizeRecord {
 public:
  // Reads, if there is one; writes nothing. Throws Error{kUsage} where `dst` holds the record of other
  // arguments, or a model without a record.
  QuantizeRecord(std::filesystem::path dst, nlohmann::ordered_json arguments);
  // Releases the lock of begin().
  ~QuantizeRecord();
  QuantizeRecord(const QuantizeRecord&) = delete;
  QuantizeRecord& operator=(const QuantizeRecord&) = delete;

  // Makes the directories. Throws Error{kUsage} while another process writes there.
  void begin();
  // Whether finished() may find the shard: a record is there and the file has its size.
  bool claims(const std::string& file) const;
  // The tensors of a finished shard whose bytes have the recorded checksum; nothing otherwise.
  std::optional<std::vector<QuantizedTensor>> finished(const std::string& file) const;
  // Records the shard as it stands in `dst`.
  void finish(const std::string& file, const std::vector<QuantizedTensor>& tensors) const;

 private:
  std::filesystem::path record_of(const std::string& file) const;
  // The shard's record where it is whole and the file has the recorded size; else null.
  nlohmann::json load(const std::string& file) const;

  std::filesystem::path dst_;
  std::filesystem::path dir_;
  nlohmann::ordered_json arguments_;
  int lock_ = -1;
};

}  // namespace baltoro
