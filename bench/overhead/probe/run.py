#!/usr/bin/env python3
"""Nanoseconds per malloc/free pair that the probe adds over a library that only forwards.

    bench/overhead/probe/run.py [--rounds N] [--out FILE] [--allocators NAME=FILE ...]

Each round runs every arm once over every allocator, in random order, right after one another; a cost is the median over
rounds of (arm - shim) of the same round, with its quartiles. Allocators default to one of each family in highwater's
cache. Build first: cargo build --release -p highwater-probe.
"""
import os
import pathlib
import platform
import random
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1]))
from harness import PROBE, SHARED, compile_c, parser, quartiles  # noqa: E402

FAMILIES = ["jemalloc@5.3.0", "mimalloc@2.1.7", "mimalloc@3.6.0", "gperftools@2.10"]
# (arm, library in front, environment); the bars apply to the second.
ARMS = [
    ("shim", "shim", {}),
    ("probe, calls exact", "probe", {"HIGHWATER_PROBE_BYTES": "sampled"}),
    ("probe, bytes exact", "probe", {"HIGHWATER_PROBE_BYTES": "exact"}),
    ("probe, off", "probe", {"HIGHWATER_PROBE": "off"}),
]


def allocators():
    found = {"glibc": None}
    cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache")) / "highwater/allocators"
    for name in FAMILIES:
        files = sorted(cache.glob(f"{name}/lib*.so*"))
        if files:
            found[name] = str(files[0])
    return found


def build(folder):
    compile_c(HERE / "shim.c", folder / "shim.so", *SHARED, libraries=["-ldl"])
    compile_c(HERE / "pair.c", folder / "pair")


def measure(folder, front, allocator, environment):
    preload = [str({"shim": folder / "shim.so", "probe": PROBE}[front])] + ([allocator] if allocator else [])
    command = ["env", "LD_PRELOAD=" + ":".join(preload), str(folder / "pair")]
    out = subprocess.run(command, env={**os.environ, **environment}, check=True, capture_output=True, text=True).stdout
    return [float(word) for word in out.split()]


def rounds_of(folder, chosen, rounds):
    """By allocator and arm the cost over the shim of each round; by allocator the shim itself."""
    costs, floors = {}, {}
    for _ in range(rounds):
        for name, file in chosen.items():
            round_ns = {arm: measure(folder, front, file, env) for arm, front, env in random.sample(ARMS, len(ARMS))}
            for arm, _, _ in ARMS[1:]:
                extra = [a - b for a, b in zip(round_ns[arm], round_ns["shim"])]
                costs.setdefault((name, arm), []).append(extra)
            floors.setdefault(name, []).append(round_ns["shim"])
    return costs, floors


def main():
    parse = parser(__doc__)
    parse.add_argument("--rounds", type=int, default=15)
    parse.add_argument("--out")
    parse.add_argument("--allocators", nargs="*", default=[], metavar="NAME=FILE")
    options = parse.parse_args()
    chosen = dict(pair.split("=", 1) for pair in options.allocators) or allocators()
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        build(folder)
        costs, floors = rounds_of(folder, chosen, options.rounds)
    lines = [
        f"{time.strftime('%Y-%m-%d')}, {platform.machine()}, {os.cpu_count()} CPUs, kernel {platform.release()}, "
        f"load {os.getloadavg()[0]:.0f}, {options.rounds} interleaved rounds; ns per pair over the shim, "
        "median [quartiles]",
        "",
        "| underneath | arm | at once | random over 32,768 live |",
        "|---|---|---|---|",
    ]
    for name in chosen:
        shim = [quartiles([pair[at] for pair in floors[name]])[1] for at in (0, 1)]
        lines.append(f"| {name} | shim itself | {shim[0]:.1f} | {shim[1]:.1f} |")
        for arm, _, _ in ARMS[1:]:
            cells = [quartiles([pair[at] for pair in costs[name, arm]]) for at in (0, 1)]
            cells = [f"{middle:+.2f} [{low:+.2f}..{high:+.2f}]" for low, middle, high in cells]
            lines.append(f"| {name} | {arm} | {cells[0]} | {cells[1]} |")
    text = "\n".join(lines) + "\n"
    print(text)
    if options.out:
        pathlib.Path(options.out).write_text(text)


if __name__ == "__main__":
    main()
