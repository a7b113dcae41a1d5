#include "baltoro/version.h"

namespace baltoro {

const char* version() noexcept { return BALTORO_VERSION; }

}  // namespace baltoro
