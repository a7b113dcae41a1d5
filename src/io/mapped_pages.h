// Pages of mapped files, moved by hand: read ahead, waited for, dropped. What is asked for here is
// read at the speed of the disk; a page fault reads a fraction of that (docs/performance.md).
#pragma once

#include <cstdint>

#include "io/file_reader.h"

namespace baltoro {

// Bytes [offset, offset + bytes) of a file that was mapped. Pages that it shares with neighbours
// count as its own.
struct FileRange {
  const FileReader* file = nullptr;
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
};

// Bytes of the whole pages that the range touches.
std::uint64_t page_bytes(const FileRange& range);

// No read of the file brings in more than was asked for: every page is then paid for by a range.
void read_exactly(const FileReader& file);

// Asks the system to read the range and returns.
void start_reading(const FileRange& range);

// Returns when the range is in memory and mapped, so that touching it is no page fault. Throws
// Error{kIo} naming the file where the disk failed or the file has been cut short since it was
// opened. On systems without MADV_POPULATE_READ (Linux before 5.14) it returns at once, and page
// faults wait instead.
void finish_reading(const FileRange& range);

// Takes the range out of this process and out of the page cache. Touching it reads it again.
void drop_pages(const FileRange& range);

}  // namespace baltoro
