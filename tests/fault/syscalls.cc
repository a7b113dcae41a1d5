#include "fault/syscalls.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/types.h>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <limits>

namespace {

using baltoro::testing::Call;

constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();

std::atomic<Call> g_call{Call::kOpen};
std::atomic<std::int64_t> g_left{kNever};  // calls before the first that fails
std::atomic<std::int64_t> g_count{0};      // that fail
std::atomic<int> g_error{0};
std::atomic<bool> g_met{false};
std::atomic<bool> g_disturbed{false};
std::atomic<std::uint64_t> g_reads{0};
std::atomic<bool> g_poisoned{false};

// True for the call that must fail; errno is then set.
bool fails(Call call) {
  if (g_left.load() == kNever || g_call.load() != call) return false;
  const std::int64_t left = g_left.fetch_sub(1);
  if (left > 0 || left <= -g_count) return false;
  g_met = true;
  errno = g_error;
  return true;
}

}  // namespace

extern "C" {

int __real_open(const char* path, int flags, ...);
int __real_fstat(int fd, struct stat* info);
ssize_t __real_pread(int fd, void* into, std::size_t bytes, off_t offset);
void* __real_mmap(void* address, std::size_t bytes, int protection, int flags, int fd,
                  off_t offset);

int __wrap_open(const char* path, int flags, ...) {
  return fails(Call::kOpen) ? -1 : __real_open(path, flags);  // no caller creates files
}

int __wrap_fstat(int fd, struct stat* info) {
  return fails(Call::kStat) ? -1 : __real_fstat(fd, info);
}

ssize_t __wrap_pread(int fd, void* into, std::size_t bytes, off_t offset) {
  if (fails(Call::kRead)) return g_error == 0 ? 0 : -1;
  if (g_disturbed) {
    if (g_reads++ % 2 == 0) {
      errno = EINTR;
      return -1;
    }
    bytes -= bytes / 2;
  }
  return __real_pread(fd, into, bytes, offset);
}

void* __wrap_mmap(void* address, std::size_t bytes, int protection, int flags, int fd,
                  off_t offset) {
  if (fails(Call::kMap)) return MAP_FAILED;
  void* map = __real_mmap(address, bytes, protection, flags, fd, offset);
  if (g_poisoned && map != MAP_FAILED && (flags & MAP_ANONYMOUS) != 0) std::memset(map, 255, bytes);
  return map;
}

}  // extern "C"

namespace baltoro::testing {

FailingCall::FailingCall(Call call, std::int64_t nth, int error, std::int64_t count) {
  g_call = call;
  g_count = count;
  g_error = error;
  g_met = false;
  g_left = nth;
}
FailingCall::~FailingCall() { g_left = kNever; }
bool FailingCall::met() const { return g_met; }

DisturbedReads::DisturbedReads() { g_disturbed = true; }
DisturbedReads::~DisturbedReads() { g_disturbed = false; }

PoisonedMemory::PoisonedMemory() { g_poisoned = true; }
PoisonedMemory::~PoisonedMemory() { g_poisoned = false; }

}  // namespace baltoro::testing
