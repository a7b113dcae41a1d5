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

// A share's word: the run's number (its low bits) above the item.
constexpr int kItemBits = 40;
constexpr std::uint64_t kItemMask = (std::uint64_t{1} << kItemBits) - 1;

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
  // The present run, in one cache line, for between distant cores each line takes its time: written by
  // the caller before it raises `generation`, read by workers after they see that.
  alignas(64) std::atomic<std::uint32_t> generation{0};
  RangeFn fn = nullptr;
  void* context = nullptr;
  std::int64_t count = 0;
  std::int64_t grain = 1;

  // How often a thread has ended a run. It goes on from run to run, so that the caller only reads it.
  alignas(64) std::atomic<std::uint32_t> ended{0};

  // The next item of each worker's share of [0, count), tagged with the run that it belongs to, so
  // that nobody resets shares between runs. A worker takes from its own share first: from run to
  // run it meets the same weights and states in its cache, and no line is fought over.
  struct alignas(64) Share {
    std::atomic<std::uint64_t> next{0};
  };
  std::vector<Share> shares;
  std::atomic<bool> stopping{false};
  std::vector<std::thread> threads;

  explicit State(int num_workers) : shares(static_cast<std::size_t>(num_workers)) {}

  // `ended` after the run of this number.
  std::uint32_t ended_after(std::uint32_t run) const {
    return run * static_cast<std::uint32_t>(shares.size() - 1);
  }

  // Where the share of `worker` begins: a whole number of grains.
  std::int64_t share_begin(int worker) const {
    const std::int64_t grains = (count + grain - 1) / grain;
    return grains * worker / std::ssize(shares) * grain;
  }

  // Brings a share to this run, whoever comes first. Every worker does so with every share, so
  // that no tag is older than the run before.
  void open_share(std::atomic<std::uint64_t>& next, std::uint64_t tag, std::int64_t begin) const {
    std::uint64_t seen = next.load(std::memory_order_relaxed);
    if ((seen & ~kItemMask) == tag) return;
    next.compare_exchange_strong(seen, tag | static_cast<std::uint64_t>(begin),
                                 std::memory_order_relaxed);
  }

  void work(int worker, std::uint32_t run) {
    const std::uint64_t tag = static_cast<std::uint64_t>(run) << kItemBits;
    const auto workers = static_cast<int>(shares.size());
    for (int i = 0; i < workers; ++i) {
      const int owner = (worker + i) % workers;
      const std::int64_t end = std::min(count, share_begin(owner + 1));
      std::atomic<std::uint64_t>& next = shares[static_cast<std::size_t>(owner)].next;
      open_share(next, tag, share_begin(owner));
      const auto item = [](std::uint64_t word) {
        return static_cast<std::int64_t>(word & kItemMask);
      };
      while (item(next.load(std::memory_order_relaxed)) < end) {
        const std::int64_t begin =
            item(next.fetch_add(static_cast<std::uint64_t>(grain), std::memory_order_relaxed));
        if (begin < end) fn(context, begin, std::min(begin + grain, end), worker);
      }
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
      work(worker, seen);
      if (ended.fetch_add(1, std::memory_order_acq_rel) + 1 == ended_after(seen))
        ended.notify_one();
    }
  }
};

ThreadPool::ThreadPool(int num_threads) {
  if (num_threads < 1 || num_threads > 1024) {
    fail(ErrorCode::kUsage, "threads: {} is out of range; use 1 to 1024", num_threads);
  }
  state_ = std::make_unique<State>(num_threads);
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
  const std::uint32_t run = s.generation.fetch_add(1, std::memory_order_release) + 1;
  s.generation.notify_all();
  s.work(0, run);
  for (int spin = 0;; ++spin) {
    const std::uint32_t ended = s.ended.load(std::memory_order_acquire);
    if (ended == s.ended_after(run)) return;
    if (spin < kSpinsBeforeSleep) {
      pause_cpu();
    } else {
      s.ended.wait(ended, std::memory_order_acquire);
    }
  }
}

}  // namespace baltoro
