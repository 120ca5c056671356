#!/usr/bin/env bash
# Mutation testing of the pure layers exchange, policy, sse and protocol: cargo-mutants changes one operator or one
# function's body at a time, and the tests must notice.
#
#   bash tests/mutants/run.sh                            all of it
#   bash tests/mutants/run.sh --shard 0/4                every fourth mutant, over all files
#   bash tests/mutants/run.sh --file src/policy/retry.rs one file
#   bash tests/mutants/run.sh --list                     only names them
#
# The whole crate takes minutes to build, so the pure layers are put into a crate of their own (below
# /tmp, or MUTANTS_DIR): the same files, a lib.rs that declares these modules alone, the tests that need no
# socket, and no optimization. Two passes: all mutants against the unit tests and tests/exchange, which then are unit
# tests too so that there is one binary to link; and what survived against all pure tests. A run that was broken off carries on when it is started again, and what was caught is not tried again;
# `--fresh` forgets all that. Other arguments go to cargo-mutants.
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

shard=0/1
listing=false
given=()
files=()
while [ $# -gt 0 ]; do
    case "$1" in
    --fresh) rm -rf "$work/results" "$work/mutants.out" ;;
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

# Writes the crate, with these integration tests.
assemble() {
    rm -rf "$work/src" "$work/tests" "$work/fuzz"
    mkdir -p "$work/src" "$work/tests" "$work/fuzz"
    local module
    for module in "${modules[@]}"; do
        if [ -d "src/$module" ]; then
            cp -rp "src/$module" "$work/src/"
        else
            cp -p "src/$module.rs" "$work/src/"
        fi
    done
    cp -rp tests/exchange tests/exchange_support tests/sim_support tests/prop_protocol tests/corpus "$work/tests/"
    cp -rp fuzz/checks fuzz/corpus "$work/fuzz/"
    cp -p Cargo.lock rust-toolchain.toml "$work/"
    {
        printf 'pub mod %s;\n' "${modules[@]}"
        printf '#[cfg(test)]\nextern crate self as baton;\n'
        printf '#[cfg(test)]\n#[path = "../tests/exchange_support/mod.rs"]\nmod support;\n'
        local file
        for file in tests/exchange/*.rs; do
            [ "$file" = tests/exchange/main.rs ] ||
                printf '#[cfg(test)]\n#[path = "../%s"]\nmod %s;\n' "$file" "$(basename "$file" .rs)"
        done
    } >"$work/src/lib.rs"
    {
        printf '[package]\nname = "baton"\nversion = "0.1.0"\nedition = "2024"\nautotests = false\n'
        printf '[workspace]\n[lib]\ndoctest = false\n[dependencies]\n'
        declared "$dependencies"
        printf '[dev-dependencies]\n'
        declared "$dev_dependencies"
        declared fastrand
        printf '[profile.dev]\ndebug = false\nincremental = true\n[profile.dev.package."*"]\nopt-level = 1\n'
        local test
        for test in "$@"; do
            cp -p "tests/$test.rs" "$work/tests/"
            printf '[[test]]\nname = "%s"\npath = "%s"\n' "$test" "tests/$test.rs"
        done
    } >"$work/Cargo.toml"
}

# The names of all mutants of this run, one a line.
names() {
    cargo mutants --dir "$work" --list --colors never "${files[@]}" "${given[@]}" |
        awk -v k="${shard%/*}" -v n="${shard#*/}" '(NR - 1) % n == k'
}

# Moves what cargo-mutants found into results/, where each mutant is in one file: that of its last run.
gather() {
    mkdir -p "$work/results"
    local kind of
    for kind in caught missed timeout unviable; do
        touch "$work/results/$kind.txt"
        [ -s "$work/mutants.out/$kind.txt" ] || continue
        for of in caught missed timeout unviable; do
            [ -e "$work/results/$of.txt" ] || continue
            grep -vxFf "$work/mutants.out/$kind.txt" "$work/results/$of.txt" >"$work/left" || true
            mv "$work/left" "$work/results/$of.txt"
        done
        sort -u "$work/mutants.out/$kind.txt" >>"$work/results/$kind.txt"
    done
    rm -rf "$work/mutants.out" "$work/mutants.out.old"
}

# Tries the mutants that are named in the file $1. cargo-mutants takes no list of names, but it leaves out those that
# it believes to have caught before.
try() {
    [ -s "$1" ] || return 0
    mkdir -p "$work/mutants.out"
    cargo mutants --dir "$work" --list --colors never "${files[@]}" "${given[@]}" |
        grep -vxFf "$1" >"$work/mutants.out/previously_caught.txt" || true
    # Once for the dependencies: each job begins with a copy of it.
    (cd "$work" && CARGO_TARGET_DIR="$work/target" nice -n 19 cargo test --no-run --quiet)
    # 2: some survived, 3: some ran into the time limit.
    local code=0
    nice -n 19 cargo mutants --dir "$work" --output "$work" --iterate --jobs "$jobs" --copy-target true \
        --minimum-test-timeout 20 --build-timeout 180 --colors never --caught --unviable \
        "${files[@]}" "${given[@]}" || code=$?
    gather
    [ "$code" = 0 ] || [ "$code" = 2 ] || [ "$code" = 3 ] || exit "$code"
}

assemble
