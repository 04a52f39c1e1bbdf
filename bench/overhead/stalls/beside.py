#!/usr/bin/env python3
"""What watching does to the median request of the search subject: windows with and without a watch, in turn, in one
process under one load; each watched window is set against the mean of the two beside it.

usage: beside.py HIGHWATER [--pairs N] [--seconds S] [--rate R] [--modes ebpf,rootless]
Build first: subjects/search/build. Needs root. A client in ten is far away and slow by itself: it is not the median."""

import csv
import json
import os
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
from harness import TARGET, parser, print_head, print_row, spread, stop  # noqa: E402

EDGE_S = 0.5  # the start of a watch, which is in what it costs itself, and requests between two windows
SEED = 1


def ready(path):
    """The address that a service says it is ready at."""
    for _ in range(1200):
        with open(path, encoding="utf-8") as file:
            words = file.read().split()
        if "ready" in words[:-1]:
            return words[words.index("ready") + 1]
        time.sleep(0.1)
    raise SystemExit(f"not ready after two minutes: {path}")


def started(command, path):
    with open(path, "w", encoding="utf-8") as output:
        return subprocess.Popen(command, stdout=output, stderr=subprocess.DEVNULL)


def window(highwater, mode, pid, seconds):
    """Start and end of its requests, and what `self_checks` says where it was watched."""
    start = time.monotonic()
    checks = None
    if mode:
        command = [highwater, "stalls", "--json", "--pid", str(pid), "--duration", f"{seconds}s", "--mode", mode]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if not done.stdout.startswith("{"):
            raise SystemExit(f"{command}: {done.stderr[-400:]}")
        checks = json.loads(done.stdout)["self_checks"]
        end = start + seconds
    else:
        time.sleep(seconds)
        end = time.monotonic()
    return (start + EDGE_S) * 1e9, end * 1e9, checks


def bootstrap(values):
    """The 95 % interval of their median."""
    source = random.Random(SEED)
    drawn = sorted(statistics.median(source.choices(values, k=len(values))) for _ in range(2000))
    return drawn[50], drawn[-51]


def measured(args, folder, mode, address, pid):
    windows = []
    seconds = (2 * args.pairs + 1) * (args.seconds + 1)
    requests = os.path.join(folder, f"{mode}.csv")
    load = started([f"{args.bin}/search-load", "--server", address, "--rate", str(args.rate),
                    "--duration", f"{seconds + 10}s", "--even", "--seed", str(SEED), "--requests", requests],
                   os.path.join(folder, "load"))
    time.sleep(4)
    for turn in range(2 * args.pairs + 1):
        windows.append(window(args.highwater, mode if turn % 2 else None, pid, args.seconds))
        time.sleep(1)
    if load.wait():
        raise SystemExit("search-load: an answer was wrong")
    with open(requests, encoding="utf-8") as file:
        rows = [(int(row["start_ns"]), int(row["end_ns"])) for row in csv.DictReader(file)]
    medians, tails = [], []
    for start, end, _ in windows:
        taken = sorted((b - a) / 1e3 for a, b in rows if start <= a < end)
        medians.append(statistics.median(taken))
        tails.append(taken[len(taken) * 99 // 100])
    watched = range(1, len(windows), 2)
    over = lambda values: [2 * values[k] / (values[k - 1] + values[k + 1]) for k in watched]
    checks = [windows[k][2] for k in watched]
    own = [100 * check["own_cpu_ns"] / check["watched_ns"] for check in checks]
    lost = sum(check["lost_records"] + check["lost_samples"] for check in checks)
    return statistics.median(medians[::2]), over(medians), over(tails), own, lost


def main():
    arguments = parser(__doc__)
    arguments.add_argument("highwater", type=os.path.abspath)
    arguments.add_argument("--pairs", type=int, default=10)
    arguments.add_argument("--seconds", type=int, default=10)
    arguments.add_argument("--rate", type=int, default=200)
    arguments.add_argument("--modes", default="ebpf,rootless")
    arguments.add_argument("--bin", default=str(TARGET / "release"))
    args = arguments.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        collector = started([f"{args.bin}/search-collector", "--folder", folder, "--delay", "1s", "--delay-max", "2s"],
                            f"{folder}/collector")
        service = started([f"{args.bin}/search", "--data", f"{folder}/db", "--collector", ready(f"{folder}/collector"),
                           "--collector-ca", f"{folder}/ca.pem"], f"{folder}/service")
        try:
            address = ready(f"{folder}/service")
            print(f"{args.pairs} pairs of windows of {args.seconds} s, {args.rate} requests a second\n")
            print_head("watcher", "p50 without, us", "p50 with/without: median [95 %] (range)",
                       "p99 with/without (range)", "own, % of a core", "lost", "load")
            for mode in args.modes.split(","):
                plain, ratios, tails, own, lost = measured(args, folder, mode, address, service.pid)
                low, high = bootstrap(ratios)
                print_row(mode, f"{plain:.0f}", f"{statistics.median(ratios):.3f} [{low:.3f} to {high:.3f}] "
                          f"({min(ratios):.3f} to {max(ratios):.3f})", spread(tails), f"{statistics.median(own):.2f}",
                          lost, f"{os.getloadavg()[0]:.1f}")
        finally:
            stop(service, collector)


if __name__ == "__main__":
    main()
