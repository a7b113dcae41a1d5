#pragma once

namespace baltoro {

// The version of the library, "major.minor.patch", as in the project file.
const char* version() noexcept;

}  // namespace baltoro
