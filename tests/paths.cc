#include "paths.h"

#include <cstdlib>

namespace baltoro {

std::filesystem::path source_dir() {
  const char* elsewhere = std::getenv("BALTORO_TEST_ROOT");
  return elsewhere != nullptr ? elsewhere : BALTORO_SOURCE_DIR;
}

std::filesystem::path test_data_dir() { return source_dir() / "tests" / "data"; }

}  // namespace baltoro
