#!/usr/bin/env bash
# Runs node with the arguments given. Where node is missing the test is skipped, visibly.
command -v node >/dev/null || { echo "SKIPPED: node is not installed (package nodejs)"; exit 0; }
exec node "$@"
