#include "cuda/host_tasks.h"

#include <memory>
#include <utility>

#include "cuda/check.h"

namespace baltoro::cuda {

void CUDART_CB HostTasks::call(void* argument) {
  auto* task = static_cast<Task*>(argument);
  const std::unique_ptr<Task> owned(task->once ? task : nullptr);
  try {
    task->work();
  } catch (...) {
    const std::lock_guard lock(task->owner->mutex_);
    if (!task->owner->error_) task->owner->error_ = std::current_exception();
  }
}

void HostTasks::enqueue(cudaStream_t stream, std::function<void()> work) {
  cudaStreamCaptureStatus capture = cudaStreamCaptureStatusNone;
  check(cudaStreamIsCapturing(stream, &capture), "ask whether a graph is recorded");
  if (capture != cudaStreamCaptureStatusNone) {
    recorded_.push_back({this, std::move(work), false});
    check(cudaLaunchHostFunc(stream, call, &recorded_.back()), "record work of the host");
    return;
  }
  auto task = std::make_unique<Task>(Task{this, std::move(work), true});
  check(cudaLaunchHostFunc(stream, call, task.get()), "enqueue work of the host");
  task.release();  // call() takes it
}

void HostTasks::rethrow() {
  const std::lock_guard lock(mutex_);
  if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
}

void HostTasks::forget() { recorded_.clear(); }

}  // namespace baltoro::cuda
