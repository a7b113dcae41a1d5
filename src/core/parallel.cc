#include "core/parallel.h"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <fstream>
#include <set>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "core/error.h"

namespace baltoro {
namespace {

// Long enough to bridge the serial code between two ops, short enough to leave the core to others
// when idle.
constexpr int kSpinsBeforeSleep = 4000;

void pause_cpu() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

// Physical cores among the CPUs that this process may use (hyper-threads of a core count once).
int physical_cores() {
  cpu_set_t mask;
  CPU_ZERO(&mask);
  if (sched_getaffinity(0, sizeof(mask), &mask) != 0) {
    return static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  }
  std::set<std::string> cores;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &mask)) continue;
    std::ifstream file(
        fmt::format("/sys/devices/system/cpu/cpu{}/topology/thread_siblings_list", cpu));
    std::string siblings;
    if (!std::getline(file, siblings)) siblings = std::to_string(cpu);
    cores.insert(siblings);
  }
  return static_cast<int>(std::max<std::size_t>(1, cores.size()));
}

// The cgroup v2 CPU quota in cores, or a large number where there is none.
double cgroup_cpu_limit() {
  std::ifstream file("/sys/fs/cgroup/cpu.max");
  std::string quota;
  double period = 0;
  if (file >> quota >> period && quota != "max" && period > 0) return std::stod(quota) / period;
  return 1e9;
}

}  // namespace

int default_thread_count() {
  const double limit = std::floor(std::min<double>(physical_cores(), cgroup_cpu_limit()));
  return std::clamp(static_cast<int>(limit), 1, 1024);
}

struct ThreadPool::State {
  // Written by the caller before `generation` is raised, read by workers after they see it.
  RangeFn fn = nullptr;
  void* context = nullptr;
  std::int64_t count = 0;
  std::int64_t grain = 1;

  alignas(64) std::atomic<std::int64_t> next{0};
  alignas(64) std::atomic<std::uint32_t> generation{0};
  alignas(64) std::atomic<int> busy{0};
  std::atomic<bool> stopping{false};
  std::vector<std::thread> threads;

  void work(int worker) {
    for (;;) {
      const std::int64_t begin = next.fetch_add(grain, std::memory_order_relaxed);
      if (begin >= count) return;
      fn(context, begin, std::min(begin + grain, count), worker);
    }
  }

  void stop() {
    stopping.store(true, std::memory_order_relaxed);
    generation.fetch_add(1, std::memory_order_release);
    generation.notify_all();
    for (std::thread& thread : threads) thread.join();
  }

  void serve(int worker) {
    std::uint32_t seen = 0;
    for (;;) {
      for (int spin = 0; generation.load(std::memory_order_acquire) == seen; ++spin) {
        if (spin < kSpinsBeforeSleep) {
          pause_cpu();
        } else {
          generation.wait(seen, std::memory_order_acquire);
        }
      }
      seen = generation.load(std::memory_order_acquire);
      if (stopping.load(std::memory_order_relaxed)) return;
      work(worker);
      if (busy.fetch_sub(1, std::memory_order_acq_rel) == 1) busy.notify_one();
    }
  }
};

ThreadPool::ThreadPool(int num_threads) : state_(std::make_unique<State>()) {
  if (num_threads < 1 || num_threads > 1024) {
    fail(ErrorCode::kUsage, "threads: {} is out of range; use 1 to 1024", num_threads);
  }
  try {
    for (int worker = 1; worker < num_threads; ++worker) {
      state_->threads.emplace_back([state = state_.get(), worker] { state->serve(worker); });
    }
  } catch (const std::system_error& error) {
    const std::size_t started = state_->threads.size() + 1;
    state_->stop();
    fail(ErrorCode::kOutOfMemory, "thread {} of {} cannot be started: {}; use fewer threads",
         started + 1, num_threads, error.code().message());
  } catch (...) {
    state_->stop();
    throw;
  }
}

ThreadPool::~ThreadPool() { state_->stop(); }

int ThreadPool::size() const noexcept { return static_cast<int>(state_->threads.size()) + 1; }

void ThreadPool::run(std::int64_t count, std::int64_t grain, RangeFn fn, void* context) {
  if (count <= 0) return;
  State& s = *state_;
  grain = std::max<std::int64_t>(1, grain);
  if (s.threads.empty() || count <= grain) {
    for (std::int64_t begin = 0; begin < count; begin += grain) {
      fn(context, begin, std::min(begin + grain, count), 0);
    }
    return;
  }
  s.fn = fn;
  s.context = context;
  s.count = count;
  s.grain = grain;
  s.next.store(0, std::memory_order_relaxed);
  s.busy.store(static_cast<int>(s.threads.size()), std::memory_order_relaxed);
  s.generation.fetch_add(1, std::memory_order_release);
  s.generation.notify_all();
  s.work(0);
  for (int spin = 0;; ++spin) {
    const int left = s.busy.load(std::memory_order_acquire);
    if (left == 0) return;
    if (spin < kSpinsBeforeSleep) {
      pause_cpu();
    } else {
      s.busy.wait(left, std::memory_order_acquire);
    }
  }
}

}  // namespace baltoro
