#!/usr/bin/env bash
# Builds baltoro, with all that this needs, and lets the small model of the repository write.
#   scripts/run.sh ["prompt" [options of `baltoro run`...]]
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/deps.sh run
# Standard output belongs to the text. Ninja configures again by itself when a CMake file changes.
[[ -f build/run/build.ninja ]] || cmake --preset run >&2
cmake --build --preset run >&2

[[ $# -gt 0 ]] || set -- "Once upon a time"
exec build/run/baltoro run models/story "$@"
