// Which source a binary was built from.
#pragma once

namespace baltoro {

// The commit that this was built from, with "-dirty" where files differed; "unknown" outside of a
// repository.
const char* commit() noexcept;

}  // namespace baltoro
