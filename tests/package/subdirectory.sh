#!/usr/bin/env bash
# Configures a program that takes baltoro by add_subdirectory; its plan must hold the library and
# neither tests nor the command line. With a third argument it is built, and continues a text.
#   subdirectory.sh SOURCE_FOLDER C++_COMPILER [build]
set -euo pipefail
source=$1
compiler=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "subdirectory.sh: $*" >&2; exit 1; }

cmake -S "$source/tests/package/consumer" -B "$work" -G Ninja -DBALTORO_SOURCE_DIR="$source" -DCMAKE_CXX_COMPILER="$compiler" >/dev/null
plan=$(ninja -C "$work" -n consumer)
grep -q 'baltoro/src/libbaltoro.a' <<<"$plan" || fail "no library in the plan: $plan"
if grep -E 'baltoro_cli|gtest|_test' <<<"$plan"; then fail "the steps above are not the library's"; fi

[[ $# -gt 2 ]] || exit 0
cmake --build "$work" --target consumer
written=$("$work/consumer" "$source/models/story" "Once upon a time")
[[ ${#written} -gt 16 ]] || fail "the program wrote '$written'"
