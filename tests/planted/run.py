#!/usr/bin/env python3
"""Plants the bugs of bugs.toml one at a time and sees that the simulator catches each within 500 seeds.

Works on a copy of the committed files below target/planted, built in a directory of its own; the checkout stays as it
is. Needs Python 3.11 and takes about ten minutes. Exit code 1: a bug was missed, or the copy does not build or pass.
"""

import os
import pathlib
import re
import subprocess
import sys
import tomllib

SEEDS = "500"
ROOT = pathlib.Path(__file__).resolve().parents[2]
COPY = ROOT / "target" / "planted"


def run(*command, **more):
    return subprocess.run(command, cwd=COPY, text=True, capture_output=True, check=False, **more)


def simulate():
    """The first failing seed and what was said of it; None if all seeds passed."""
    env = os.environ | {"SIM_SEEDS": SEEDS, "CARGO_TARGET_DIR": str(COPY / "target"), "RUST_BACKTRACE": "0"}
    built = run("cargo", "test", "--test", "sim", "--no-run", env=env)
    if built.returncode:
        sys.exit("does not build:\n" + built.stderr[-2000:])
    tested = run("cargo", "test", "--test", "sim", env=env, timeout=600)
    if tested.returncode == 0:
        return None
    said = tested.stdout + tested.stderr
    seed = re.search(r"seed\D{0,20}(\d+)", said)
    words = re.search(r"panicked at [^\n]*\n([^\n]+)", said)
    return seed.group(1) if seed else "?", words.group(1)[:70] if words else said.strip().splitlines()[-1][:70]


def main():
    COPY.mkdir(parents=True, exist_ok=True)
    files = subprocess.run(["git", "archive", "HEAD"], cwd=ROOT, capture_output=True, check=True).stdout
    subprocess.run(["tar", "x", "-C", COPY], input=files, check=True)
    if simulate():
        sys.exit("the simulator fails without any bug")
    missed = 0
    for bug in tomllib.loads((COPY / "tests/planted/bugs.toml").read_text())["bug"]:
        path = COPY / bug["file"]
        text = path.read_text()
        if text.count(bug["find"]) != 1:
            sys.exit(f"{bug['name']}: what it replaces does not stand exactly once in {bug['file']}")
        path.write_text(text.replace(bug["find"], bug["put"]))
        caught = simulate()
        path.write_text(text)
        missed += caught is None
        seed, words = caught or ("-", "")
        print(f"{'caught' if caught else 'MISSED':7} {seed:>5}  {bug['name']:58} {words}", flush=True)
    sys.exit(1 if missed else 0)


main()
