#!/usr/bin/env bash
# Builds baltoro, with all that this needs, and starts the HTTP server with the small model of the repository.
#   scripts/serve.sh [options of `baltoro serve`...]
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/deps.sh run
[[ -f build/run/build.ninja ]] || cmake --preset run >&2
cmake --build --preset run >&2

exec build/run/baltoro serve models/story "$@"
