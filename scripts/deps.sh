#!/usr/bin/env bash
# Installs the Debian packages that one use of baltoro needs and that are missing. Does nothing, and
# needs no rights, when all are there.
#   scripts/deps.sh run    build the program
#   scripts/deps.sh test   build and run the tests and the checks
#   scripts/deps.sh ci     the above, the fuzz targets, and the tests of web
#   scripts/deps.sh cross  build and test for 64-bit ARM
#   scripts/deps.sh web    test the chat page in a browser
set -euo pipefail

usage() { sed -n '2,8s/^# \{0,1\}//p' "$0" >&2; exit 2; }
[[ $# -le 1 ]] || usage

# The C++ compiler, the build tools and the libraries of the program itself; then what its chat page holds.
packages=(g++ cmake ninja-build pkg-config nlohmann-json3-dev libfmt-dev libspdlog-dev libcli11-dev
  libpcre2-dev libboost-dev node-marked libjs-katex fonts-katex node-highlight.js)
# NumPy writes test checkpoints, ICU is the oracle of the pre-tokenisation, the rest checks.
test_packages=(libgtest-dev libgmock-dev libicu-dev python3 python3-numpy clang-format git)
web_packages=(chromium)
# Node.js from elsewhere brings npm along, and conflicts with Debian's package of it.
command -v node >/dev/null || web_packages+=(nodejs)
command -v npm >/dev/null || web_packages+=(npm)
case "${1:-run}" in
  run) ;;
  test) packages+=("${test_packages[@]}") ;;
  ci) packages+=("${test_packages[@]}" "${web_packages[@]}" clang libclang-rt-dev lld) ;;
  cross) packages+=("${test_packages[@]}" g++-aarch64-linux-gnu qemu-user) ;;
  web) packages+=("${test_packages[@]}" "${web_packages[@]}") ;;
  *) usage ;;
esac

if ! command -v dpkg-query >/dev/null; then
  echo "deps.sh: this is not a Debian system; the build needs the equivalents of: ${packages[*]}" >&2
  exit 0
fi

missing=()
for package in "${packages[@]}"; do
  state=$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null || true)
  [[ $state == installed ]] || missing+=("$package")
done
[[ ${#missing[@]} -gt 0 ]] || exit 0

as_root=()
if [[ $(id -u) -ne 0 ]]; then
  if ! command -v sudo >/dev/null; then
    echo "deps.sh: missing ${missing[*]}; run this script as root, or install sudo" >&2
    exit 1
  fi
  as_root=(sudo)
fi
echo "deps.sh: installing ${missing[*]}" >&2
apt_get() { "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q "$@" >&2; }
apt_get update
apt_get install -y --no-install-recommends "${missing[@]}"
