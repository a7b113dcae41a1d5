// Helpers to throw baltoro::Error with a formatted message. Host code only: a header that a .cu
// sees must not include it.
#pragma once

#include <fmt/format.h>

#include "baltoro/error.h"

namespace baltoro {

// Throws Error{code, formatted message}.
template <typename... Args>
[[noreturn]] void fail(ErrorCode code, fmt::format_string<Args...> format, Args&&... args) {
  throw Error(code, fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace baltoro

// A contract inside baltoro that must hold in every build; throws Error{kInternal} with place and
// message.
#define BALTORO_CHECK(condition, ...)                                                       \
  do {                                                                                      \
    if (!(condition)) {                                                                     \
      ::baltoro::fail(::baltoro::ErrorCode::kInternal, "{}:{}: {}: {}", __FILE__, __LINE__, \
                      #condition, ::fmt::format(__VA_ARGS__));                              \
    }                                                                                       \
  } while (false)
