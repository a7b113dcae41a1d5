# The libraries that baltoro is made with, all from the system. Layers link fmt through ${BALTORO_FMT} and spdlog through
# ${BALTORO_SPDLOG}: Debian has no archives of the two, so a static binary takes them from their headers.
if(BALTORO_STATIC)
  set(CMAKE_FIND_LIBRARY_SUFFIXES .a)
endif()
find_package(Threads REQUIRED)
find_package(nlohmann_json 3.11 REQUIRED)
find_package(fmt REQUIRED)
find_package(spdlog REQUIRED)
find_package(CLI11 REQUIRED)
# Asio and Beast, headers alone: the HTTP server.
find_package(Boost 1.74 REQUIRED)
find_package(PkgConfig REQUIRED)
pkg_check_modules(PCRE2 REQUIRED IMPORTED_TARGET libpcre2-8)

if(BALTORO_STATIC)
  set(BALTORO_FMT fmt::fmt-header-only)
  set(BALTORO_SPDLOG spdlog::spdlog_header_only)
  set_target_properties(spdlog::spdlog_header_only PROPERTIES
    INTERFACE_LINK_LIBRARIES "Threads::Threads;fmt::fmt-header-only")
else()
  set(BALTORO_FMT fmt::fmt)
  set(BALTORO_SPDLOG spdlog::spdlog)
endif()
