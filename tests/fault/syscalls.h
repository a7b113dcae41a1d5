// Faults of the system calls by which files and large memory come in. The linker gives this file
// the calls of open, fstat, pread and mmap of a program built with baltoro_wrap_syscalls().
#pragma once

#include <cstdint>

namespace baltoro::testing {

enum class Call { kOpen, kStat, kRead, kMap };

// While it lives, `count` calls of one kind from number `nth` (from 0) on fail with `error`; a read
// with error 0 meets the end of the file. One at a time.
class FailingCall {
 public:
  FailingCall(Call call, std::int64_t nth, int error, std::int64_t count = 1);
  ~FailingCall();
  FailingCall(const FailingCall&) = delete;
  FailingCall& operator=(const FailingCall&) = delete;

  // Whether there was such a call.
  bool met() const;
};

// While it lives, every second read is interrupted by a signal and the others give at most half of
// what was asked for.
class DisturbedReads {
 public:
  DisturbedReads();
  ~DisturbedReads();
  DisturbedReads(const DisturbedReads&) = delete;
  DisturbedReads& operator=(const DisturbedReads&) = delete;
};

// While it lives, new memory holds bytes of 255, which are NaN in f32 and bf16 and -1 in integers,
// where the system would give zeros.
class PoisonedMemory {
 public:
  PoisonedMemory();
  ~PoisonedMemory();
  PoisonedMemory(const PoisonedMemory&) = delete;
  PoisonedMemory& operator=(const PoisonedMemory&) = delete;
};

}  // namespace baltoro::testing
