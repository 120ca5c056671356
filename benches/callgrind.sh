#!/usr/bin/env bash
# Counts the instructions that one event of a stream takes from the upstream's bytes to the client's slices, in memory.
# Unlike a time the count is the same in every run of one binary, whatever else the machine does. Opt-in: needs valgrind.
#
#   bash benches/callgrind.sh           # the counts
#   bash benches/callgrind.sh --top     # and the functions that take most of them
set -euo pipefail
cd "$(dirname "$0")/.."

if ! command -v valgrind > /dev/null; then
    echo "callgrind.sh needs valgrind (apt-get install valgrind)" >&2
    exit 69
fi

binary=$(cargo bench --no-run --bench callgrind --message-format=json 2> /dev/null |
    sed -n 's/.*"name":"callgrind".*"executable":"\([^"]*\)".*/\1/p' | tail -n 1)
if [ ! -x "$binary" ]; then
    echo "the bench was not built: cargo bench --no-run --bench callgrind says why" >&2
    exit 1
fi

out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT

# The instructions of a run: events, bytes a read.
count() {
    valgrind --tool=callgrind --toggle-collect='*relay_all*' --callgrind-out-file="$out/$1-$2" "$binary" "$1" "$2" > /dev/null 2> "$out/log" ||
        { cat "$out/log" >&2; exit 1; }
    sed -n 's/^summary: //p; s/^totals: //p' "$out/$1-$2" | tail -n 1
}

# What happens once a stream falls out of the difference of two runs.
few=1000
many=3000
for size in 0 16384; do
    before=$(count "$few" "$size")
    after=$(count "$many" "$size")
    name="an event a read"
    [ "$size" = 0 ] || name="$((size / 1024)) KiB a read"
    echo "$name: $(((after - before) / (many - few))) instructions an event"
    if [ "${1:-}" = --top ]; then
        callgrind_annotate --auto=no --threshold=90 "$out/$many-$size" 2> /dev/null |
            sed -n 's| \[.*||; s|/[^ ]*/registry/src/[^/]*/||; s|/rustc/[^/]*/||; /file:function/,$p' |
            sed -n 1,40p
    fi
done
