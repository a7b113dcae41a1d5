#!/usr/bin/env bash
# Builds a static baltoro for 64-bit ARM with Debian's cross compiler and runs the tests under qemu. The libraries for ARM are
# unpacked into build/aarch64-sysroot; the system's own packages and their architecture stay as they are.
#   scripts/cross_aarch64.sh [options of ctest...]
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/deps.sh cross

sysroot=$PWD/build/aarch64-sysroot
if [[ ! -d $sysroot/usr/include/boost ]]; then
  apt=$PWD/build/aarch64-apt
  mkdir -p "$sysroot" "$apt/lists/partial" "$apt/archives/partial" "$apt/packages"
  options=(-qq -o APT::Architecture=arm64 -o APT::Architectures=arm64 -o Dir::State="$apt" -o Dir::State::Status=/dev/null
    -o Dir::Cache="$apt" -o APT::Sandbox::User=)
  apt-get "${options[@]}" update
  (cd "$apt/packages" && apt-get "${options[@]}" download nlohmann-json3-dev libcli11-dev libfmt-dev libfmt9 libspdlog-dev \
    libspdlog1.10 libpcre2-dev libboost1.74-dev libgtest-dev libgmock-dev libicu-dev)
  for package in "$apt"/packages/*.deb; do dpkg-deb --extract "$package" "$sysroot"; done
fi

[[ -f build/aarch64/build.ninja ]] || cmake --preset aarch64
cmake --build --preset aarch64
ctest --preset aarch64 -j "$(nproc)" "$@"
