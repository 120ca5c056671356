#!/usr/bin/env bash
# The sixteen scenarios at full length, about 80 s: one line each, pass or FAIL, how long it took and what was seen.
# SCENARIO=8,14 runs those alone.
set -euo pipefail
cd "$(dirname "$0")/../.."

cargo test --quiet --test scenarios --no-run
log=$(mktemp)
trap 'rm -f "$log"' EXIT
model=$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)
echo "$(date -u +%F), $(uname -sr), $(nproc) x ${model:-unknown CPU}, ${BATON_TEST_DRIVER:-io_uring}"
status=0
SCENARIOS=full cargo test --quiet --test scenarios -- --nocapture >"$log" 2>&1 || status=$?
# The lines of those that failed are said once more with the test's own failure.
grep -E '^ *[0-9]+ (pass|FAIL) ' "$log" | sort -n -u || cat "$log"
exit "$status"
