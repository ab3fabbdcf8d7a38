#!/usr/bin/env bash
# The README's two commands on a clean clone, with a bare PATH and an empty HOME, as someone who just found this would run them.
# tests/newcomer.sh ["make demo" "make test"]: other commands may be named; one that starts with "make demo" is run in a
# terminal, its curl line is carried out over HTTP, and Ctrl-C ends it. Prints how long each took; exits 1 on the first failure.
set -euo pipefail
cd "$(dirname "$0")/.."
exec "${PYTHON:-python3}" tests/support/newcomer.py "$@"
