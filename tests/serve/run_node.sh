#!/usr/bin/env bash
# Runs node with the arguments given. With --clients first, the npm packages of this folder must be there; with --browser
# first, CHROMIUM is set too. What is missing skips the test, visibly.
set -euo pipefail
skip() { echo "SKIPPED: $*"; exit 0; }
need_package() {
  (( $(node -p 'parseInt(process.versions.node)') >= 20 )) || skip "the npm packages want Node.js 20, this is $(node --version)"
  [[ -d $(dirname "$0")/node_modules/$1 ]] || skip "its npm packages are not installed (npm ci --prefix tests/serve)"
}

command -v node >/dev/null || skip "node is not installed (scripts/deps.sh web)"
if [[ ${1:-} == --clients ]]; then
  shift
  need_package openai
elif [[ ${1:-} == --browser ]]; then
  shift
  CHROMIUM=${CHROMIUM:-$(command -v chromium || command -v google-chrome || true)}
  [[ -n $CHROMIUM ]] || skip "chromium is not installed (scripts/deps.sh web)"
  need_package playwright-core
  export CHROMIUM
fi
exec node "$@"
