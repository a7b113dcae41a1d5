#include "cuda/pass_graphs.h"

#include <algorithm>

namespace baltoro::cuda {
namespace {

bool only_decodes(const BatchView& batch) {
  return std::all_of(batch.sequences.begin(), batch.sequences.end(), [](const SequenceRows& s) {
    return s.origin == Origin::kGenerated && s.num_rows == 1;
  });
}

}  // namespace

GraphExec PassGraphs::record(const std::function<void()>& ops) {
  check(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal), "record a pass");
  cudaGraph_t recorded = nullptr;
  try {
    ops();
  } catch (...) {
    cudaStreamEndCapture(stream_, &recorded);
    const Graph dropped(recorded);
    throw;
  }
  check(cudaStreamEndCapture(stream_, &recorded), "record a pass");
  const Graph graph(recorded);
  cudaGraphExec_t exec = nullptr;
  check(cudaGraphInstantiate(&exec, graph.get(), 0), "make a graph of a pass");
  return GraphExec(exec);
}

void PassGraphs::run(const BatchView& batch, const DeviceBatch& staged,
                     const std::function<void()>& ops) {
  if (!only_decodes(batch)) {
    ops();
    return;
  }
  const Key key{staged.num_rows, staged.max_pages, staged.sequences, batch.drawn};
  const auto found = graphs_.find(key);
  if (found == graphs_.end()) {
    ops();
    graphs_.emplace(key, GraphExec());
    return;
  }
  if (!found->second) found->second = record(ops);
  check(cudaGraphLaunch(found->second.get(), stream_), "launch the graph of a pass");
}

void PassGraphs::forget() { graphs_.clear(); }

}  // namespace baltoro::cuda
