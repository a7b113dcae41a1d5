#!/usr/bin/env bash
# Builds the tests, with all that this needs, and runs those without the label `slow`.
#   scripts/test.sh [preset [options of ctest...]]      presets: release (default), dev, fuzz, tsan, ci
set -euo pipefail
cd "$(dirname "$0")/.."

preset=${1:-release}
[[ $# -eq 0 ]] || shift
scripts/deps.sh test
[[ -f build/$preset/build.ninja ]] || cmake --preset "$preset"
cmake --build --preset "$preset"
ctest --preset "$preset" -j "$(nproc)" "$@"
