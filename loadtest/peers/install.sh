#!/bin/sh
# Installs the proxies that `loadtest compare` sets beside Baton: nginx and HAProxy, from the distribution (apt).
# Installing twice does no harm. No service is left running: the comparison starts its own instances.
# Envoy is in no distribution's archive; an `envoy` binary on the PATH is used if there is one.
set -eu

if [ "$(id -u)" -ne 0 ]; then
    echo "install.sh needs root: sudo sh $0" >&2
    exit 1
fi
if ! command -v apt-get >/dev/null; then
    echo "install.sh knows apt only; install nginx and haproxy with this system's own package manager" >&2
    exit 1
fi

missing=""
for peer in nginx haproxy; do
    command -v "$peer" >/dev/null || missing="$missing $peer"
done
if [ -n "$missing" ]; then
    export DEBIAN_FRONTEND=noninteractive
    # apt starts the services it installs unless this file refuses it; one that is already there stays as it is.
    policy=/usr/sbin/policy-rc.d
    if [ ! -e "$policy" ]; then
        printf '#!/bin/sh\nexit 101\n' >"$policy"
        chmod 755 "$policy"
        trap 'rm -f "$policy"' EXIT
    fi
    apt-get update -qq
    # shellcheck disable=SC2086 # a list of names
    apt-get install -qq -y --no-install-recommends $missing >/dev/null
fi
nginx -v
haproxy -v | head -n 1
