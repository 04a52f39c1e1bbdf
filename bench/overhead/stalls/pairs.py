#!/usr/bin/env python3
"""What watching costs a service, and the watcher: the median request without and with a watch, in pairs, in turn.

usage: pairs.py HIGHWATER [--pairs N] [--seconds S] [--offcputime FILE] [--perf] [--only NAME]
                [--search FOLDER --rate N] [FLAG...]
The service is mill.c (FLAGs: plain, clients=N, gap=US, work=US, threads=N), or that of subjects/search, built in
FOLDER, with no fault and N requests a second (FLAGs: its own); needs root. Each watcher's run is set against the run
without any just before it."""

import csv
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1]))
from harness import children_cpu_s, compile_c, load_average, parser, print_head, print_row, stop  # noqa: E402

NICE = ["nice", "-n", "-15"]


def switches(pid):
    """Voluntary and other switches of all threads so far."""
    total = 0
    for tid in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{tid}/status", encoding="ascii", errors="replace") as file:
            total += sum(int(line.split()[1]) for line in file if "ctxt_switches" in line)
    return total


class Mill:
    """mill.c: it is its own client."""

    def __init__(self, folder, seconds, flags):
        words = NICE + [os.path.join(folder, "mill"), os.path.join(folder, "truth"), str(seconds + 1), *flags]
        self.process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
        self.pid = self.process.pid
        time.sleep(0.5)

    def end(self):
        """(median us, 99th percentile us)"""
        out = self.process.communicate()[0].split()
        return float(out[0]), float(out[1])


class Search:
    """subjects/search and its load, one for all runs: filling it takes seconds."""

    def __init__(self, built, folder, rate, flags):
        self.load_words = [os.path.join(built, "search-load"), "--rate", str(rate), "--seed", "1"]
        words = NICE + [os.path.join(built, "search"), "--tracing-off", "--data", os.path.join(folder, "data"), *flags]
        self.process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
        self.pid, self.folder = self.process.pid, folder
        self.address = next(line.split()[1] for line in self.process.stdout if line.startswith("ready "))

    def start(self, seconds):
        self.requests = os.path.join(self.folder, "requests.csv")
        words = self.load_words + ["--server", self.address, "--duration", f"{seconds + 1}s",
                                   "--requests", self.requests]
        self.load = subprocess.Popen(NICE + words, stdout=subprocess.DEVNULL)
        time.sleep(0.5)
        return self

    def end(self):
        """(median us, 99th percentile us)"""
        self.load.wait()
        with open(self.requests, encoding="ascii") as file:
            rows = [(int(row["end_ns"]) - int(row["start_ns"])) / 1e3 for row in csv.DictReader(file)]
        cuts = statistics.quantiles(rows, n=100)
        return cuts[49], cuts[98]


def run(start, folder, seconds, watcher):
    """(median us, 99th percentile us, switches a second, the watcher's share of a CPU, records lost)."""
    service = start()
    before, own, lost = switches(service.pid), 0.0, 0
    started, used = time.monotonic(), children_cpu_s()
    if watcher:
        command = [word.format(pid=service.pid, seconds=seconds, folder=folder) for word in watcher]
        done = subprocess.run(NICE + command, capture_output=True, text=True, check=False)
        own = (children_cpu_s() - used) / (time.monotonic() - started)
        if done.stdout.startswith("{"):
            checks = json.loads(done.stdout)["self_checks"]
            own, lost = checks["own_cpu_ns"] / checks["watched_ns"], checks["lost_records"] + checks["lost_samples"]
        elif done.returncode not in (0, 130):
            raise SystemExit(f"{command}: {done.stderr[-400:]}")
    else:
        time.sleep(seconds)
    rate = (switches(service.pid) - before) / (time.monotonic() - started)
    return *service.end(), rate, own, lost


def spread(values, digits):
    return f"{statistics.median(values):.{digits}f} ({min(values):.{digits}f} to {max(values):.{digits}f})"


def watchers_of(args):
    """The command of each watcher, by its name."""
    stalls = [args.highwater, "stalls", "--json", "--pid", "{pid}", "--duration", "{seconds}s", "--mode"]
    watchers = {"ebpf": stalls + ["ebpf"], "rootless": stalls + ["rootless"]}
    if args.offcputime:
        watchers["offcputime"] = [args.offcputime, "-p", "{pid}", "{seconds}"]
    if args.perf:
        watchers["perf sched record"] = ["perf", "sched", "record", "-o", "{folder}/perf.data",
                                         "--", "sleep", "{seconds}"]
    return {args.only: watchers[args.only]} if args.only else watchers


def measured(args, folder, watchers):
    """By watcher: (run without, run with) of each pair."""
    if args.search:
        search = Search(args.search, folder, args.rate, args.flags)
        start = lambda: search.start(args.seconds)
        start().end()
    else:
        compile_c(HERE / "mill.c", f"{folder}/mill", "-O2", "-pthread")
        start = lambda: Mill(folder, args.seconds, args.flags or ["plain"])
    pairs = {name: [] for name in watchers}
    for _ in range(args.pairs):
        for name, watcher in watchers.items():
            pairs[name].append([run(start, folder, args.seconds, which) for which in (None, watcher)])
    if args.search:
        stop(search.process)
    return pairs


def main():
    arguments = parser(__doc__)
    arguments.add_argument("highwater", type=os.path.abspath)
    arguments.add_argument("--pairs", type=int, default=10)
    arguments.add_argument("--seconds", type=int, default=4)
    arguments.add_argument("--offcputime", type=os.path.abspath)
    arguments.add_argument("--perf", action="store_true")
    arguments.add_argument("--only", help="of the watchers")
    arguments.add_argument("--search", type=os.path.abspath)
    arguments.add_argument("--rate", type=int, default=100)
    arguments.add_argument("flags", nargs="*")
    args = arguments.parse_intermixed_args()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        pairs = measured(args, folder, watchers_of(args))
    what = f"search at {args.rate} requests a second" if args.search else " ".join(args.flags or ["plain"])
    print(f"{load_average()}; {args.pairs} pairs of {args.seconds} s; {what}\n")
    print_head("watcher", "switches a second", "p50 without, us", "p50 with/without: median (range)",
               "p99 with/without", "own, % of a core", "lost")
    for name, runs in pairs.items():
        ratios = [[watched[at] / without[at] for without, watched in runs] for at in (0, 1)]
        rates, owns, lost = ([watched[at] for _, watched in runs] for at in (2, 3, 4))
        plain = statistics.median(without[0] for without, _ in runs)
        print_row(name, f"{statistics.median(rates):.0f}", f"{plain:.0f}", spread(ratios[0], 3), spread(ratios[1], 2),
                  spread([100 * own for own in owns], 2), sum(lost))


if __name__ == "__main__":
    main()
