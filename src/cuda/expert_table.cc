#include "cuda/expert_table.h"

#include <vector>

#include "cuda/check.h"
#include "cuda/memory.h"

namespace baltoro::cuda {

Buffer make_expert_table(std::span<const ExpertWeights> experts, cudaStream_t stream) {
  std::vector<ExpertEntry> entries;
  entries.reserve(experts.size());
  for (const ExpertWeights& e : experts) {
    entries.push_back({e.w1.data, e.w1.scales, e.w3.data, e.w3.scales, e.w2.data, e.w2.scales});
  }
  const std::size_t bytes = entries.size() * sizeof(ExpertEntry);
  Buffer table = device_buffer(bytes, "table of experts");
  check(cudaMemcpyAsync(table.data(), entries.data(), bytes, cudaMemcpyHostToDevice, stream),
        "copy the table of experts");
  check(cudaStreamSynchronize(stream), "copy the table of experts");
  return table;
}

}  // namespace baltoro::cuda
