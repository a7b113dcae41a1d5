// Where the tests find their files: the checkout that they were built from, or the one that the environment variable
// BALTORO_TEST_ROOT names, for binaries that were carried elsewhere.
#pragma once

#include <filesystem>

namespace baltoro {

std::filesystem::path source_dir();
std::filesystem::path test_data_dir();  // tests/data of it

}  // namespace baltoro
