#!/usr/bin/env bash
# Plants the bugs of tests/planted/bugs one at a time in a copy of the tracked files and runs the simulator on each:
# all must be caught within 500 seeds, and the copy without a bug must pass. Prints a table; 1 if a bug is missed.
# PLANT=second_done,usage_twice plants those alone. The checkout is only read; all is written below target/planted.
set -euo pipefail
cd "$(dirname "$0")/../.."

SEEDS=500
bugs=$PWD/tests/planted/bugs
tree=$PWD/target/planted/tree
built=$PWD/target/planted/target
export CARGO_TARGET_DIR=$built CARGO_INCREMENTAL=1 RUST_BACKTRACE=0
log=$(mktemp)
trap 'rm -f "$log"' EXIT

# What the checkout has built of other crates is copied, so that only this one is built anew.
warm_start() {
    [ -d target/debug/.fingerprint ] && [ ! -d "$built" ] || return 0
    mkdir -p "$built/debug"
    (
        cd target/debug
        find .fingerprint build deps -type f \
            ! -path '*/baton-*' ! -path '*/libbaton-*' ! -path '*/loadtest-*' ! -path '*/libloadtest-*' \
            \( ! -path 'deps/*' -o -name 'lib*.rlib' -o -name 'lib*.rmeta' -o -name 'lib*.so' \) -print0 |
            tar c --null -T -
    ) | tar x -C "$built/debug"
}

# Reads a bug: a title, a source file, and blocks `--- find` and `--- put`.
read_bug() {
    local line part=
    finds=() puts=()
    { read -r title; read -r source; while IFS= read -r line; do
        case $line in
            '--- find') part=find; finds+=('') ;;
            '--- put') part=put; puts+=('') ;;
            *) if [ "$part" = find ]; then finds[-1]+=$line$'\n'; else puts[-1]+=$line$'\n'; fi ;;
        esac
    done; } <"$1"
}

build() {
    cargo test --locked --test sim --no-run >"$log" 2>&1
}

# Runs the simulator on the copy as it stands. Sets `seed`, the first that failed, and `message`.
# 0: all seeds passed; 1: some failed; 2: it does not build, or does not end.
simulate() {
    seed= message=
    cd "$tree"
    # Once more, since a compiler that was killed says nothing of the bug.
    if ! build && ! { cat "$log" >&2; build; }; then
        message="does not build: $(grep -m 1 '^error' "$log" || true)"
        return 2
    fi
    local sim
    sim=$(sed -n 's/^ *Executable tests.sim.rs (\(.*\))$/\1/p' "$log")
    if SIM_SEEDS=$SEEDS timeout 300 "$sim" >"$log" 2>&1; then return 0; fi
    seed=$(sed -n 's/^replay with SIM_SEED: \[\(.*\)\]$/\1/p' "$log" | tr -d ' ' | tr ',' '\n' | sort -n | head -n 1)
    if [ -z "$seed" ] || [ "$seed" -ge "$SEEDS" ]; then
        message="no seed below $SEEDS failed: $(tail -n 1 "$log")"
        return 2
    fi
    SIM_SEED=$seed timeout 60 "$sim" --nocapture >"$log" 2>&1 || true
    # What the panic said; of a comparison with no words of its own, what came.
    message=$(awk '
        said { sub(/^ *left: /, ""); print; exit }
        panicked { if (/^assertion .* failed$/) said = 1; else { sub(/^assertion .* failed: /, ""); print; exit } }
        / panicked at / { panicked = 1 }' "$log" | cut -c 1-90)
    return 1
}

warm_start
rm -rf "$tree"
mkdir -p "$tree"
git archive HEAD | tar x -m -C "$tree"
# Cargo builds the binary for every integration test; this one does not run it.
echo 'fn main() {}' >"$tree/src/main.rs"
echo "$(date -u +%F), $(uname -sr), $(nproc) cores, $SEEDS seeds"
row='%-52s %5s  %s\n'
# shellcheck disable=SC2059
printf "$row" bug seed message
missed=0
code=0
(simulate) || code=$?
if [ "$code" -ne 0 ]; then
    echo "the tree without a bug fails" >&2
    cat "$log" >&2
    exit 1
fi
# shellcheck disable=SC2059
printf "$row" "none planted" "-" "passed"
for bug in "$bugs"/*.txt; do
    name=$(basename "$bug" .txt)
    case ",${PLANT:-$name}," in *",$name,"*) ;; *) continue ;; esac
    read_bug "$bug"
    sound=$(cat "$tree/$source")
    text=$sound$'\n'
    for at in "${!finds[@]}"; do
        planted=${text/"${finds[at]}"/"${puts[at]}"}
        [ "$planted" != "$text" ] || { echo "$name: its text is not in $source" >&2; exit 1; }
        text=$planted
    done
    printf '%s' "$text" >"$tree/$source"
    code=0
    simulate || code=$?
    printf '%s\n' "$sound" >"$tree/$source"
    if [ "$code" -ne 1 ]; then
        missed=$((missed + 1))
        seed=MISS
    fi
    # shellcheck disable=SC2059
    printf "$row" "$title" "$seed" "${message:-all seeds passed}"
done
echo "$missed missed"
[ "$missed" -eq 0 ]
