// A thread that moves pages of mapped files in and out of memory, in the order asked, while others
// compute.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "io/mapped_pages.h"

namespace baltoro {

// move() and wait() may be called by many threads.
class Pager {
 public:
  using Ticket = std::uint64_t;  // grows with each move

  Pager();
  // Ends after the move at work; those behind it are left undone.
  ~Pager();
  Pager(const Pager&) = delete;
  Pager& operator=(const Pager&) = delete;

  // Drops the pages of `drops`, then reads those of `reads`. Returns at once.
  Ticket move(std::vector<FileRange> drops, std::vector<FileRange> reads);

  // Returns when the move and all before it are done. Throws Error{kIo} of the first that failed;
  // from then on every wait does, because pages that nobody saw arrive may be touched.
  void wait(Ticket ticket);

  // Bytes of the ranges read so far, whether they came from the disk or were still cached.
  std::uint64_t bytes_read() const;

 private:
  struct Move {
    std::vector<FileRange> drops;
    std::vector<FileRange> reads;
    bool started = false;
  };
  void work(const std::stop_token& stop);
  // Drops, and asks for the reads.
  static void start(Move& move);

  mutable std::mutex mutex_;
  std::condition_variable_any changed_;
  std::deque<Move> queue_;
  Ticket asked_ = 0;
  Ticket done_ = 0;
  std::uint64_t bytes_read_ = 0;
  std::exception_ptr error_;
  std::jthread thread_;  // last: it uses the others
};

}  // namespace baltoro
