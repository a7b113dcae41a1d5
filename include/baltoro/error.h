// The one exception type of baltoro. A message says what, where, the value, the limit and the
// remedy.
#pragma once

#include <stdexcept>
#include <string>

namespace baltoro {

// The command line maps a code to an exit status: kUsage 2, kBadModel 3, kOutOfMemory 4, kDevice
// and kUnsupported 5, kDoesNotFit 6, all others 1.
enum class ErrorCode {
  kUsage,        // the caller's arguments or options
  kBadModel,     // a file of the model: missing, malformed, contradictory
  kIo,           // reading or writing failed
  kOutOfMemory,  // an allocation failed
  kDevice,       // a device is missing or failed
  kUnsupported,  // valid input that this build or backend does not do
  kDoesNotFit,   // the plan needs more memory than there is
  kNonFinite,    // a computation gave NaN or infinity
  kInternal,     // a broken contract inside baltoro
};

class Error : public std::runtime_error {
 public:
  Error(ErrorCode code, const std::string& message) : std::runtime_error(message), code_(code) {}
  ErrorCode code() const noexcept { return code_; }

 private:
  ErrorCode code_;
};

}  // namespace baltoro
