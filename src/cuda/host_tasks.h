// Work of the host in the order of a stream: a host node of the stream or of the graph that is being
// recorded.
#pragma once

#include <cuda_runtime_api.h>

#include <deque>
#include <exception>
#include <functional>
#include <mutex>

namespace baltoro::cuda {

class HostTasks {
 public:
  void enqueue(cudaStream_t stream, std::function<void()> work);
  // The first exception since the last call, if any.
  void rethrow();
  // No graph refers to recorded tasks any more.
  void forget();

 private:
  struct Task {
    HostTasks* owner;
    std::function<void()> work;
    bool once;  // else kept for the repeats of a graph
  };
  static void CUDART_CB call(void* task);

  std::deque<Task> recorded_;
  std::mutex mutex_;  // the error is written by a thread of the driver
  std::exception_ptr error_;
};

}  // namespace baltoro::cuda
