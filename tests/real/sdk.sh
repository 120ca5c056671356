#!/usr/bin/env bash
# The check with the official SDKs: openai for Python and for Node against Baton, its upstreams scripted to fail.
#
#   bash tests/real/sdk.sh
#
# Prints a line for each check and SDK, and ends with 0 only if every check passed.
#
# Opt-in: it installs the two SDKs (90 MB) into tests/real/.env, which git ignores and the next run uses again. Needs
# Python 3.9 or later and Node 20 or later, and takes some ten seconds once Baton is built.
set -euo pipefail
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
cd "$here/../.."
env="$here/.env"

# The Python version is that of run.sh, which shares the folder. The next major version of the Node one wants Node 22.
python=3.57.0
node=6.49.0

installed="import importlib.metadata, sys; sys.exit(importlib.metadata.version('openai') != '$python')"
if ! "$env/bin/python" -c "$installed" 2>/dev/null; then
    echo "installing openai $python for Python into $env"
    [ -x "$env/bin/python" ] || python3 -m venv "$env"
    "$env/bin/pip" install -q --disable-pip-version-check "openai==$python"
fi
if [ "$(cat "$env/node/installed" 2>/dev/null)" != "$node" ]; then
    echo "installing openai $node for Node into $env/node"
    mkdir -p "$env/node"
    npm install --silent --no-audit --no-fund --no-save --prefix "$env/node" "openai@$node"
    echo "$node" >"$env/node/installed"
fi

cargo build --release --locked --workspace --bin baton --bin loadtest

# Everything is on loopback: a proxy of the environment has no part in it.
export NO_PROXY=127.0.0.1 no_proxy=127.0.0.1 PYTHONDONTWRITEBYTECODE=1
exec "$env/bin/python" "$here/sdk.py" "${CARGO_TARGET_DIR:-target}/release" "$env/node"
