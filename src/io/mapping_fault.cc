#include "io/mapping_fault.h"

#include <fcntl.h>
#include <unistd.h>

#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace baltoro {
namespace {

// All below runs in a signal handler: system calls and memory of its own, nothing else.

void put(std::string_view text) {
  // There is nobody left to tell that this failed.
  [[maybe_unused]] const ssize_t ignored = write(STDERR_FILENO, text.data(), text.size());
}

// The hexadecimal number at the front of `text`, which moves behind it and one more character.
std::uintptr_t take_hex(std::string_view& text) {
  std::uintptr_t value = 0;
  for (; !text.empty(); text.remove_prefix(1)) {
    const char c = text.front();
    if (c >= '0' && c <= '9') {
      value = value * 16 + static_cast<std::uintptr_t>(c - '0');
    } else if (c >= 'a' && c <= 'f') {
      value = value * 16 + static_cast<std::uintptr_t>(c - 'a' + 10);
    } else {
      text.remove_prefix(1);
      break;
    }
  }
  return value;
}

// The path in a line of /proc/self/maps, "begin-end permissions offset device inode  path", where
// `address` lies between begin and end and a file is mapped; else nothing.
std::string_view file_at(std::string_view line, std::uintptr_t address) {
  const std::uintptr_t begin = take_hex(line);
  const std::uintptr_t end = take_hex(line);
  const std::size_t path = line.find('/');
  if (address < begin || address >= end || path == std::string_view::npos) return {};
  return line.substr(path);
}

// Looks the address up in the kernel's table of this process; false where no file is mapped there.
bool report(std::uintptr_t address) {
  static char buffer[8192];  // the longest line has a path of 4096 bytes
  const int fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
  if (fd < 0) return false;
  std::size_t held = 0;
  for (;;) {
    const ssize_t got = read(fd, buffer + held, sizeof(buffer) - held);
    if (got <= 0) return false;
    held += static_cast<std::size_t>(got);
    std::size_t begin = 0;
    while (const void* newline = std::memchr(buffer + begin, '\n', held - begin)) {
      const auto end = static_cast<std::size_t>(static_cast<const char*>(newline) - buffer);
      const std::string_view path = file_at({buffer + begin, end - begin}, address);
      if (!path.empty()) {
        put("baltoro: error: ");
        put(path);
        put(": a mapped part cannot be read: the file was cut short meanwhile, or its disk fails; "
            "write or fetch it again, or use --load copy\n");
        return true;
      }
      begin = end + 1;
    }
    held -= begin;
    std::memmove(buffer, buffer + begin, held);
  }
}

void on_bus_error(int signal, siginfo_t* info, void*) {
  if (report(reinterpret_cast<std::uintptr_t>(info->si_addr))) _exit(1);
  std::signal(signal, SIG_DFL);  // the access is tried again and ends the process
}

}  // namespace

void report_mapping_faults() {
  struct sigaction action = {};
  action.sa_sigaction = on_bus_error;
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGBUS, &action, nullptr);
}

}  // namespace baltoro
