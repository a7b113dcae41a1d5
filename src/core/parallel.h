// The thread pool of the CPU backend: a fixed team that runs one function at a time, without heap
// allocation. Work is split over outputs only, so that results do not depend on the number of
// threads.
#pragma once

#include <cstdint>
#include <memory>
#include <type_traits>

namespace baltoro {

// The number of threads to use by default: physical cores, bounded by the affinity mask and the
// cgroup's CPU quota; at least 1.
int default_thread_count();

class ThreadPool {
 public:
  // A team of num_threads, the caller of run() included. Throws Error{kUsage} unless 1 <=
  // num_threads <= 1024, Error{kOutOfMemory} where the system has no room for so many.
  explicit ThreadPool(int num_threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int size() const noexcept;

  // Calls body(begin, end, worker) for disjoint ranges of at most `grain` items that cover
  // [0, count), on all workers, and returns when all are done. A worker begins with its own share,
  // the same for equal counts, and then helps the others. One caller at a time; body must not throw
  // and must not call back into the pool.
  template <typename Body>
  void parallel_for(std::int64_t count, std::int64_t grain, Body&& body) {
    using Fn = std::remove_reference_t<Body>;
    run(
        count, grain,
        [](void* context, std::int64_t begin, std::int64_t end, int worker) {
          (*static_cast<Fn*>(context))(begin, end, worker);
        },
        const_cast<void*>(static_cast<const void*>(&body)));
  }

 private:
  using RangeFn = void (*)(void* context, std::int64_t begin, std::int64_t end, int worker);
  void run(std::int64_t count, std::int64_t grain, RangeFn fn, void* context);

  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace baltoro
