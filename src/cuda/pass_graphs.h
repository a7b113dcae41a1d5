// CUDA graphs of decoding passes: the ops of a pass in which each sequence decodes one token are
// recorded once per batch size and range of context, and then launched as one.
#pragma once

#include <cstdint>
#include <functional>
#include <map>

#include "cuda/batch_stage.h"
#include "cuda/handle.h"
#include "ops/batch.h"

namespace baltoro::cuda {

class PassGraphs {
 public:
  explicit PassGraphs(cudaStream_t stream) : stream_(stream) {}

  // `staged` is `batch` in device memory, at the addresses that the ops will find.
  void run(const BatchView& batch, const DeviceBatch& staged, const std::function<void()>& ops);
  // The addresses in the graphs are no longer valid.
  void forget();

 private:
  struct Key {
    std::int32_t num_rows;
    std::int32_t max_pages;
    const void* batch;  // moves when a larger one was staged
    const void* drawn;  // null: the pass draws no tokens
    auto operator<=>(const Key&) const = default;
  };
  GraphExec record(const std::function<void()>& ops);

  cudaStream_t stream_;
  // An empty graph: the pass has run once, so that all scratch memory is there for the record.
  std::map<Key, GraphExec> graphs_;
};

}  // namespace baltoro::cuda
