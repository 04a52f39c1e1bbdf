#!/usr/bin/env python3
"""What watching costs a service, and the watcher: the median of a request without and with, in pairs, one after the other.

usage: pairs.py HIGHWATER [--pairs N] [--seconds S] [--offcputime FILE] [--perf] [FLAG...]
The service is services/mill.c (FLAGs: plain, clients=N, gap=US, threads=N); needs root. Each watcher's run is set against
the run without any just before it."""

import argparse
import json
import os
import resource
import shutil
import statistics
import subprocess
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
NICE = ["nice", "-n", "-15"]


def cpu_s():
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def switches(pid):
    """Voluntary and other switches of all threads so far."""
    total = 0
    for tid in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{tid}/status", encoding="ascii", errors="replace") as file:
            total += sum(int(line.split()[1]) for line in file if "ctxt_switches" in line)
    return total


def run(program, folder, seconds, flags, watcher):
    """(median us, 99th percentile us, switches a second, the watcher's share of a CPU, records lost)."""
    words = NICE + [program, os.path.join(folder, "truth"), str(seconds + 1), *flags]
    service = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    time.sleep(0.5)
    before, own, lost = switches(service.pid), 0.0, 0
    started, used = time.monotonic(), cpu_s()
    if watcher:
        command = [word.format(pid=service.pid, seconds=seconds, folder=folder) for word in watcher]
        done = subprocess.run(NICE + command, capture_output=True, text=True, check=False)
        own = (cpu_s() - used) / (time.monotonic() - started)
        if done.stdout.startswith("{"):
            checks = json.loads(done.stdout)["self_checks"]
            own, lost = checks["own_cpu_ns"] / checks["watched_ns"], checks["lost_records"] + checks["lost_samples"]
        elif done.returncode not in (0, 130):
            raise SystemExit(f"{command}: {done.stderr[-400:]}")
    else:
        time.sleep(seconds)
    rate = (switches(service.pid) - before) / (time.monotonic() - started)
    out = service.communicate()[0].split()
    return float(out[0]), float(out[1]), rate, own, lost


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("highwater", type=os.path.abspath)
    parser.add_argument("--pairs", type=int, default=10)
    parser.add_argument("--seconds", type=int, default=4)
    parser.add_argument("--offcputime", type=os.path.abspath)
    parser.add_argument("--perf", action="store_true")
    parser.add_argument("flags", nargs="*", default=["plain"])
    args = parser.parse_intermixed_args()
    stalls = [args.highwater, "stalls", "--json", "--pid", "{pid}", "--duration", "{seconds}s", "--mode"]
    watchers = {"ebpf": stalls + ["ebpf"], "rootless": stalls + ["rootless"]}
    if args.offcputime:
        watchers["offcputime"] = [args.offcputime, "-p", "{pid}", "{seconds}"]
    if args.perf:
        watchers["perf sched record"] = ["perf", "sched", "record", "-o", "{folder}/perf.data", "--", "sleep", "{seconds}"]
    folder = tempfile.mkdtemp()
    program = os.path.join(folder, "mill")
    subprocess.run(["cc", "-O2", "-pthread", "-o", program, os.path.join(HERE, "services/mill.c")], check=True)
    ratios = {name: [] for name in watchers}
    tails, rates, owns, lost, plain = ({name: [] for name in watchers} for _ in range(5))
    for _ in range(args.pairs):
        for name, watcher in watchers.items():
            without = run(program, folder, args.seconds, args.flags, None)
            watched = run(program, folder, args.seconds, args.flags, watcher)
            plain[name].append(without[0])
            ratios[name].append(watched[0] / without[0])
            tails[name].append(watched[1] / without[1])
            rates[name].append(watched[2])
            owns[name].append(100 * watched[3])
            lost[name].append(watched[4])
    with open("/proc/loadavg", encoding="ascii") as load:
        print(f"load average {load.read().split()[0]}; {args.pairs} pairs of {args.seconds} s; {' '.join(args.flags)}\n")
    print("| watcher | switches a second | p50 without, us | p50 with/without: median (range) | p99 with/without | own, % of a core | lost |")
    print("|---|---|---|---|---|---|---|")
    spread = lambda values, digits: f"{statistics.median(values):.{digits}f} ({min(values):.{digits}f} to {max(values):.{digits}f})"
    for name in watchers:
        print(f"| {name} | {statistics.median(rates[name]):.0f} | {statistics.median(plain[name]):.0f} | {spread(ratios[name], 3)} | "
              f"{spread(tails[name], 2)} | {spread(owns[name], 2)} | {sum(lost[name])} |")
    shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
