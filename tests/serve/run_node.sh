#!/usr/bin/env bash
# Runs node with the arguments given. With --browser first, CHROMIUM is set, and the npm packages of this folder must be
# there. What is missing skips the test, visibly.
set -euo pipefail
skip() { echo "SKIPPED: $*"; exit 0; }

command -v node >/dev/null || skip "node is not installed (scripts/deps.sh web)"
if [[ ${1:-} == --browser ]]; then
  shift
  CHROMIUM=${CHROMIUM:-$(command -v chromium || command -v google-chrome || true)}
  [[ -n $CHROMIUM ]] || skip "chromium is not installed (scripts/deps.sh web)"
  [[ -d $(dirname "$0")/node_modules/playwright-core ]] || skip "its npm packages are not installed (npm ci --prefix tests/serve)"
  export CHROMIUM
fi
exec node "$@"
