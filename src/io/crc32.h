// CRC-32 as zlib, gzip and Python's zlib.crc32 compute it (reflected polynomial 0xEDB88320).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace baltoro {

// Continues from the value of the preceding bytes; starts from 0.
std::uint32_t crc32(std::span<const std::byte> bytes, std::uint32_t previous = 0);

}  // namespace baltoro
