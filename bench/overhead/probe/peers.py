#!/usr/bin/env python3
"""The probe beside other heap profilers on a real server: redis-server under redis-benchmark, all in one run.

    bench/overhead/probe/peers.py --root FOLDER --cache FOLDER [--rounds N] [--requests N]

FOLDER of --root holds what Debian's packages redis-server, redis-tools, libheaptrack, libgoogle-perftools4, libunwind8
and those that redis needs unpack to (dpkg -x); that of --cache is highwater's cache with jemalloc@5.3.0-prof and
zig-debug@0.15.2. A profiler's figure is the throughput of the server under it over the same server, in the same round,
with the same allocator and no profile; median [least to most] over the rounds, whose order is random.
heaptrack writes its raw records to a file, which spares the server the second process that its script starts.
"""
import os
import random
import sys
import tempfile
from pathlib import Path

import redis

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from harness import PROBE, parser, print_head, print_row, spread  # noqa: E402


def arms(options, folder):
    """Name: library in front, variables, and the arm that it is compared with."""
    libraries = Path(options.root) / "usr/lib"
    cached = Path(options.cache) / "allocators"
    tcmalloc = str(libraries / "x86_64-linux-gnu/libtcmalloc.so.4")
    jemalloc = str(cached / "jemalloc@5.3.0-prof/libjemalloc.so.2")
    heaptrack = str(libraries / "heaptrack/libheaptrack_preload.so")
    return {
        "none": ("", {}, None),
        "highwater's probe": (str(PROBE), {}, "none"),
        "heaptrack 1.4.0": (heaptrack, {"DUMP_HEAPTRACK_OUTPUT": f"{folder}/heaptrack.raw"}, "none"),
        "zig-debug 0.15.2": (str(next(cached.glob("zig-debug@0.15.2/*.so"))), {}, "none"),
        "jemalloc 5.3.0": (jemalloc, {"MALLOC_CONF": "prof:false"}, None),
        "jemalloc 5.3.0, prof:true": (jemalloc, {"MALLOC_CONF": "prof:true"}, "jemalloc 5.3.0"),
        "tcmalloc 2.10": (tcmalloc, {}, None),
        "tcmalloc 2.10, HEAPPROFILE": (tcmalloc, {"HEAPPROFILE": f"{folder}/tcmalloc"}, "tcmalloc 2.10"),
    }


def round_of(options, folder):
    seen = {}
    all_arms = arms(options, folder)
    for name in random.sample(sorted(all_arms), len(all_arms)):
        library, variables, _ = all_arms[name]
        options.allocator = library or None
        os.environ.update(variables)
        try:
            seen[name] = redis.one(options, False, options.requests)
        finally:
            for variable in variables:
                del os.environ[variable]
    return {name: [seen[name][i] / seen[base][i] for i in (0, 1)] for name, (_, _, base) in all_arms.items() if base}


def main():
    parse = parser(__doc__)
    parse.add_argument("--rounds", type=int, default=5)
    parse.add_argument("--requests", type=int, default=50_000)
    parse.add_argument("--root", required=True)
    parse.add_argument("--cache", required=True)
    parse.add_argument("--seed", type=int, default=1)
    options = parse.parse_args()
    options.bgsave = False
    random.seed(options.seed)
    rounds = []
    for _ in range(options.rounds):
        with tempfile.TemporaryDirectory() as folder:
            rounds.append(round_of(options, folder))
    load = os.getloadavg()[0]
    print(f"{options.rounds} rounds, seed {options.seed}, {options.requests} requests a command, "
          f"load average {load:.0f}")
    columns = ("throughput x without", "CPU per request x without")
    print_head("profiler", *columns, right=columns)
    for name in rounds[0]:
        print_row(name, *(spread([one[name][i] for one in rounds]) for i in (0, 1)))


if __name__ == "__main__":
    main()
