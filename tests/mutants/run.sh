#!/usr/bin/env bash
# Mutation testing of the pure layers exchange, policy, sse and protocol: cargo-mutants changes one operator or one
# function's body at a time, and the tests must notice.
#
#   bash tests/mutants/run.sh                            all of it
#   bash tests/mutants/run.sh --shard 0/4                every fourth mutant, over all files
#   bash tests/mutants/run.sh --file src/policy/retry.rs one file
#   bash tests/mutants/run.sh --list                     only names them
#
# The whole crate takes minutes to build, so the pure layers are put into a crate of their own (below /tmp, or in
# MUTANTS_DIR): the same files, a lib.rs that declares these modules alone, the tests that need no socket, and no
# optimization. Two passes: all mutants against the unit tests and tests/exchange, which then are unit tests too so that
# there is one binary to link; and what survived against all pure tests. Two such crates (MUTANTS_JOBS) are changed in
# place, side by side: copies would build their dependencies again.
#
# A run that was broken off carries on when it is started again, and what was caught is not tried again; `--fresh`
# forgets all that. Other arguments go to cargo-mutants.
#
# Opt-in: needs cargo-mutants 27 (cargo install --locked cargo-mutants). The results are in
# results/{caught,missed,timeout,unviable}.txt of the folder. docs/mutants.md says what survives, and why.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
work="${MUTANTS_DIR:-${TMPDIR:-/tmp}/baton-mutants}"
jobs="${MUTANTS_JOBS:-2}"

layers=(exchange policy sse protocol)
modules=(error time http1 "${layers[@]}")
slow=(prop_protocol prop_cooldown prop_seam prop_sse fuzz_corpus_sse fuzz_corpus_exchange sim)
dependencies='brotli-decompressor|bytes|flate2|httparse|httpdate|itoa|memchr|simd-json|smallvec|thiserror'
dev_dependencies='proptest|serde_json'

# Whatever is still running when this script ends is ended too: each crate's run is a process group of its own.
set -m
trap 'for job in $(jobs -p); do kill -- "-$job" 2>/dev/null || true; done' EXIT

mapfile -t crates < <(seq 1 "$jobs")
kinds=(caught missed timeout unviable)

shard=0/1
listing=false
given=()
files=()
while [ $# -gt 0 ]; do
    case "$1" in
    --fresh) rm -rf "$work/results" "$work"/*/mutants.out ;;
    --list) listing=true ;;
    --shard) shard="$2" && shift ;;
    --file) files+=(--file "$2") && shift ;;
    *) given+=("$1") ;;
    esac
    shift
done
if [ ${#files[@]} = 0 ]; then
    for layer in "${layers[@]}"; do
        files+=(--file "src/$layer/**")
    done
fi

# The lines of Cargo.toml that declare these crates.
declared() {
    grep -E "^($1) = " Cargo.toml
}

# Writes the crate number $1, with the integration tests that follow.
assemble() {
    local crate="$work/$1" module file test
    shift
    rm -rf "$crate/src" "$crate/tests" "$crate/fuzz"
    mkdir -p "$crate/src" "$crate/tests" "$crate/fuzz"
    for module in "${modules[@]}"; do
        if [ -d "src/$module" ]; then
            cp -r "src/$module" "$crate/src/"
        else
            cp "src/$module.rs" "$crate/src/"
        fi
    done
    cp -r tests/exchange tests/exchange_support tests/sim_support tests/prop_protocol tests/corpus "$crate/tests/"
    cp -r fuzz/checks fuzz/corpus "$crate/fuzz/"
    cp Cargo.lock rust-toolchain.toml "$crate/"
    {
        printf 'pub mod %s;\n' "${modules[@]}"
        printf '#[cfg(test)]\nextern crate self as baton;\n'
        printf '#[cfg(test)]\n#[path = "../tests/exchange_support/mod.rs"]\nmod support;\n'
        for file in tests/exchange/*.rs; do
            [ "$file" = tests/exchange/main.rs ] ||
                printf '#[cfg(test)]\n#[path = "../%s"]\nmod %s;\n' "$file" "$(basename "$file" .rs)"
        done
    } >"$crate/src/lib.rs"
    {
        printf '[package]\nname = "baton"\nversion = "0.1.0"\nedition = "2024"\nautotests = false\n'
        printf '[workspace]\n[lib]\ndoctest = false\n[dependencies]\n'
        declared "$dependencies"
        printf '[dev-dependencies]\n'
        declared "$dev_dependencies"
        declared fastrand
        printf '[profile.dev]\ndebug = false\nincremental = true\n[profile.dev.package."*"]\nopt-level = 1\n'
        for test in "$@"; do
            cp "tests/$test.rs" "$crate/tests/"
            printf '[[test]]\nname = "%s"\npath = "%s"\n' "$test" "tests/$test.rs"
        done
    } >"$crate/Cargo.toml"
}

# The names of all mutants of the files, one a line.
names() {
    cargo mutants --dir "$work/1" --list --colors never "${files[@]}" "${given[@]}"
}

# Those of every n-th line from the k-th on, counted from 0: $1 is k, $2 is n.
every() {
    awk -v k="$1" -v n="$2" '(NR - 1) % n == k'
}

# Moves what cargo-mutants found in a crate into results/, where each mutant is in one file: that of its last run.
gather() {
    local crate kind of
    mkdir -p "$work/results"
    for kind in "${kinds[@]}"; do
        touch "$work/results/$kind.txt"
    done
    for crate in "${crates[@]}"; do
        for kind in "${kinds[@]}"; do
            [ -s "$work/$crate/mutants.out/$kind.txt" ] || continue
            for of in "${kinds[@]}"; do
                grep -vxFf "$work/$crate/mutants.out/$kind.txt" "$work/results/$of.txt" >"$work/left" || true
                mv "$work/left" "$work/results/$of.txt"
            done
            sort -u "$work/$crate/mutants.out/$kind.txt" >>"$work/results/$kind.txt"
        done
        rm -rf "$work/$crate/mutants.out" "$work/$crate/mutants.out.old"
    done
}

# Tries the mutants that are named in the file $2 in the crate $1. cargo-mutants takes no list of names, but it leaves
# out those that it believes to have caught before.
try_in() {
    local crate="$work/$1" code=0
    [ -s "$2" ] || return 0
    mkdir -p "$crate/mutants.out"
    grep -vxFf "$2" "$work/names.txt" >"$crate/mutants.out/previously_caught.txt" || true
    nice -n 19 cargo mutants --dir "$crate" --output "$crate" --in-place --iterate --timeout "$limit" --build-timeout 180 \
        --colors never "${files[@]}" "${given[@]}" || code=$?
    # 2: some survived, 3: some ran into the time limit.
    [ "$code" = 0 ] || [ "$code" = 2 ] || [ "$code" = 3 ]
}

# Tries the mutants that stand in wanted.txt, with the integration tests that follow $1, the limit of a test run in
# seconds: every crate its share.
try() {
    local limit="$1" crate running=()
    shift
    [ -s "$work/wanted.txt" ] || return 0
    for crate in "${crates[@]}"; do
        assemble "$crate" "$@"
        # The dependencies are built once.
        [ -d "$work/$crate/target" ] || [ "$crate" = 1 ] || cp -a "$work/1/target" "$work/$crate/"
        (cd "$work/$crate" && CARGO_TARGET_DIR=target nice -n 19 cargo test --no-run --quiet)
        every $((crate - 1)) "${#crates[@]}" <"$work/wanted.txt" >"$work/wanted.$crate.txt"
    done
    for crate in "${crates[@]}"; do
        try_in "$crate" "$work/wanted.$crate.txt" &
        running+=($!)
    done
    local failed=0
    for crate in "${running[@]}"; do
        wait "$crate" || failed=1
    done
    gather
    return "$failed"
}

# How many of this run are in the results of a kind, or their names.
of_this_run() {
    grep -xFf "$work/results/$1.txt" "$work/shard.txt" || true
}

assemble 1
names >"$work/names.txt"
every "${shard%/*}" "${shard#*/}" <"$work/names.txt" >"$work/shard.txt"
if "$listing"; then
    cat "$work/shard.txt"
    exit
fi
# Few cases each: a mutant that only the ten-thousandth finds is rather one for a table. The simulation needs its seeds
# to see every kind of end.
export PROPTEST_CASES="${PROPTEST_CASES:-48}" SIM_SEEDS="${SIM_SEEDS:-400}" FUZZ_ROUNDS="${FUZZ_ROUNDS:-200}"
gather
echo "==> pass 1: the unit tests and tests/exchange"
cat "$work"/results/*.txt | grep -vxFf - "$work/shard.txt" >"$work/wanted.txt" || true
try 20
echo "==> pass 2: what survived, all pure tests"
of_this_run missed >"$work/wanted.txt"
try 180 "${slow[@]}"

for kind in "${kinds[@]}"; do
    echo "$kind: $(of_this_run "$kind" | wc -l)"
done
of_this_run missed
