// Rewrites a checkpoint with smaller weights: routed experts as MXFP4, the large matrices beside
// them as MXINT8. Streams from shard to shard; what is finished survives a kill.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "io/checkpoint_files.h"
#include "model/config.h"
#include "model/quantize_plan.h"
#include "model/quantize_record.h"

namespace baltoro {

using QuantizeProgress = std::function<void(std::uint64_t bytes_done, std::uint64_t bytes_total)>;

struct QuantizeReport {
  std::vector<QuantizedTensor> tensors;  // those that were quantised, in file order
  std::size_t num_resumed = 0;           // shards that an earlier run had finished
};

// One thread at a time.
class Quantizer {
 public:
  // Opens `src`, a model directory, and decides what happens to each tensor; writes nothing. Throws
  // as load_config, CheckpointFiles, plan_quantization and QuantizeRecord do, and Error{kUsage} where
  // `src` and `dst` are one directory.
  Quantizer(std::filesystem::path src, std::filesystem::path dst, const QuantizeTargets& targets);

  const QuantizePlan& plan() const { return plan_; }
  // Of the shards that no earlier run has finished.
  std::uint64_t bytes_to_write() const;
  // On the disk of `dst`.
  std::uint64_t bytes_free() const;

  // Throws Error{kDoesNotFit} where the disk has no room for bytes_to_write().
  void check_space() const;

  // num_threads 0: default_thread_count(). Writes shards, index, the source's other files (tokenizer, templates), and at last config.json:
  // without it no command takes the directory for a model. Memory: a block of 16 MiB, its codes, and
  // the scales of one matrix. Throws as check_space, Error{kUsage} while another process writes to `dst`, Error{kBadModel} for NaN
  // or infinity in a matrix, Error{kIo}.
  QuantizeReport run(int num_threads = 0, const QuantizeProgress& progress = {});

 private:
  std::vector<QuantizedTensor> write_shard(const PlannedShard& shard, TensorQuantizer& quantizer,
                                           const QuantizeProgress& progress);
  void write_index() const;
  void copy_other_files() const;

  std::filesystem::path src_;
  std::filesystem::path dst_;
  QuantizeTargets targets_;
  std::string config_text_;
  CheckpointFiles files_;
  QuantizePlan plan_;
  nlohmann::ordered_json arguments_;
  QuantizeRecord record_;
  std::uint64_t bytes_done_ = 0;
};

}  // namespace baltoro
