#!/usr/bin/env python3
"""Every service of services/ with its fault and mended, watched as root and as another user; a row of Markdown for each.

usage: exams.py HIGHWATER [--modes ebpf,rootless] [--only WORD,...] [--times N] [--seconds S] [--rows]
Needs root, a C, C++, Rust, Go and Java compiler (services without theirs are left out, and said). Services run at nice -15,
so that a shared machine's other work is little to them; --rows prints what was found as well.
A duration's error is that of the longest stall of the right cause against the longest wait that the service timed itself, in the
part of the watch that is whole; only services that log "wait" have one.
A row is right when the first one that is not of cpu-starvation (but for hogs) has the cause; its function is right when it is the
named one, and "stack" when that is only on its stack. Mended, rows of cpu-starvation are counted apart: they may be true."""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time

from cases import BUILDS, CASES, UNHARMED

HERE = os.path.dirname(os.path.abspath(__file__))
SOURCES = os.path.join(HERE, "services")
NICE = ["nice", "-n", "-15"]
OTHER_USER = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
TOTALS = ("watched", "right", "with a function", "named", "on the stack", "rows too many", "rows mended", "of starvation mended")


def build(folder):
    """Paths of the services that could be built."""
    built = {}
    for name, command in BUILDS.items():
        to = os.path.join(folder, name)
        if name == "Counter":
            os.mkdir(to)
        command = [word.format(to=to) for word in command]
        try:
            done = subprocess.run(command, cwd=SOURCES, capture_output=True, text=True, check=False)
        except OSError as error:
            print(f"left out: {name}: {error}", file=sys.stderr)
            continue
        if done.returncode == 0:
            built[name] = to
        else:
            print(f"left out: {name}: {done.stderr[-400:]}", file=sys.stderr)
    return built


def started_as(name, path):
    if name == "Counter":
        return ["java", "-cp", path, "Counter"]
    if name in ("smithy", "spinner"):
        return [os.path.join(path, "bin", name)]
    if name == "tinker":
        return ["node", path]
    if name in ("tally", "carder", "scribe"):
        # Not a shim of the shell's, whose process would be watched instead.
        return [os.path.realpath(sys.executable), path]
    return [path]


class Quota:
    """A control group of the first version's tree with 8 ms of CPU in 100."""

    def __init__(self, pid):
        self.folder = f"/sys/fs/cgroup/cpu/highwater-exam-{pid}"
        os.mkdir(self.folder)
        self.write("cpu.cfs_period_us", 100_000)
        self.write("cpu.cfs_quota_us", 8_000)
        self.write("cgroup.procs", pid)

    def write(self, name, value):
        with open(f"{self.folder}/{name}", "w", encoding="ascii") as file:
            file.write(str(value))

    def end(self):
        for _ in range(50):
            try:
                return os.rmdir(self.folder)
            except OSError:
                time.sleep(0.1)


class Nested(Quota):
    """The same quota, of a group above the service's own, which has none."""

    def __init__(self, pid):
        super().__init__(pid)
        self.inner = os.path.join(self.folder, "inner")
        os.mkdir(self.inner)
        with open(os.path.join(self.inner, "cgroup.procs"), "w", encoding="ascii") as file:
            file.write(str(pid))

    def end(self):
        for _ in range(50):
            try:
                os.rmdir(self.inner)
                break
            except OSError:
                time.sleep(0.1)
        super().end()


class Memory:
    """A control group of the first version's tree with 48 MiB of memory, files' pages among them."""

    def __init__(self, pid):
        self.folder = f"/sys/fs/cgroup/memory/highwater-exam-{pid}"
        os.mkdir(self.folder)
        for name, value in (("memory.limit_in_bytes", 48 << 20), ("cgroup.procs", pid)):
            with open(f"{self.folder}/{name}", "w", encoding="ascii") as file:
                file.write(str(value))

    end = Quota.end


class Hogs:
    """Two programs that keep the service's own CPU busy."""

    def __init__(self, pid):
        subprocess.run(["taskset", "-apc", "1", str(pid)], capture_output=True, check=True)
        loop = "while :; do :; done"
        self.all = [subprocess.Popen(NICE + ["taskset", "-c", "1", "sh", "-c", loop]) for _ in range(2)]

    def end(self):
        for one in self.all:
            one.kill()
            one.wait()


AROUND = {"hogs": Hogs, "quota": Quota, "nested": Nested, "memory": Memory}


def longest_ms(log, word, since=0, until=float("inf")):
    """Of the log's lines that begin with this word and lie between the two times, in ms."""
    with open(log, encoding="ascii", errors="replace") as file:
        lines = [line.split() for line in file if line.count(" ") == 3]
    spans = [(int(start), int(end)) for first, _, start, end in lines if first == word]
    return max((end - start for start, end in spans if start >= since and end <= until), default=0) / 1e6


# Of a watch's beginning: symbols are read, and no thread's wait is whole yet.
BEGINNING_NS = 400_000_000


def watch(highwater, mode, case, path, seconds, fixed):
    """One watch: what was found, and the longest stall and wait of the service's own log in ms."""
    folder = tempfile.mkdtemp()
    os.chmod(folder, 0o777)
    log = os.path.join(folder, "truth")
    as_user = OTHER_USER if mode == "rootless" else []
    words = started_as(case.service, path) + [log, str(seconds + 5), case.kind, *case.flags]
    words += ["fixed"] if fixed and case.around in ("", "memory") else []
    with open(os.path.join(folder, "err"), "wb") as errors:
        service = subprocess.Popen(NICE + as_user + words, stdout=errors, stderr=errors, cwd=folder)
    around = None
    try:
        time.sleep(2 if case.service == "Counter" else 1.2)
        if case.around and not (fixed and case.kind in UNHARMED):
            around = AROUND[case.around](service.pid)
        command = [highwater, "stalls", "--pid", str(service.pid), "--mode", mode, "--duration", f"{seconds}s", "--json"]
        begun = time.monotonic_ns()
        done = subprocess.run(NICE + as_user + command, capture_output=True, text=True, check=False, cwd=folder)
        over = time.monotonic_ns()
        if done.returncode != 0:
            return {"error": done.stderr.strip()}, 0, 0
        found = json.loads(done.stdout)
    finally:
        service.kill()
        service.wait()
        if around:
            around.end()
    stall, wait = longest_ms(log, "stall"), longest_ms(log, "wait", begun + BEGINNING_NS, over)
    shutil.rmtree(folder, ignore_errors=True)
    return found, stall, wait


def shown(row):
    culprit = row["culprit"]
    period = f" every {row['period_ns'] / 1e9:.2f} s" if row["period_ns"] else ""
    guess = f" inferred {row['agreeing']}/{row['episodes']}" if row["inferred"] and "agreeing" in row else " inferred" * row["inferred"]
    return (
        f"{row['cause']} n={row['count']} threads={row['threads']} {row['longest_ns'] / 1e6:.1f} ms of {row['total_ns'] / 1e6:.0f}"
        f"{period}{guess} [{culprit['thread']}] {culprit['function']}: {culprit['doing']}"
    )


def judged(case, found):
    """(cause right, function: named, on the stack or not, number of rows beyond the ones asked for)."""
    starved = "cpu-starvation" in case.causes
    rows = [row for row in found["findings"] if starved or row["cause"] != "cpu-starvation"]
    right = bool(rows) and rows[0]["cause"] in case.causes
    if case.around == "hogs" and not starved:
        right = right and found["findings"][0]["cause"] in case.causes
    function = ""
    if right and case.function:
        culprit = rows[0]["culprit"]
        called = culprit["function"] or ""
        if any(name in called for name in case.function[:1]):
            function = "named"
        elif any(name in word for name in case.function for word in [called, *(culprit["stack"] or [])]):
            function = "stack"
    return right, function, max(0, len(rows) - case.rows_max)


def exam(args, case, path, mode):
    """A row of the table."""
    right, named, on_stack, beyond, false_rows, starved, costs, lost, lengths, errors = 0, 0, 0, 0, 0, 0, [], 0, [], []
    for _ in range(args.times):
        for fixed in (False, True) if case.causes else (True,):
            if fixed and case.around == "hogs" and case.kind not in UNHARMED:
                continue
            found, truth, wait = watch(args.highwater, mode, case, path, args.seconds, fixed)
            if "error" in found:
                print(f"    {case.service} {case.kind}: {found['error'][:200]}", file=sys.stderr)
                continue
            checks = found["self_checks"]
            costs.append(100 * checks["own_cpu_ns"] / checks["watched_ns"])
            lost += checks["lost_records"] + checks.get("lost_samples", 0)
            rows = found["findings"]
            if args.rows:
                for row in rows:
                    print(f"    {mode} {'fixed ' if fixed else ''}{shown(row)}", flush=True)
            if fixed:
                false_rows += sum(row["cause"] != "cpu-starvation" for row in rows)
                starved += sum(row["cause"] == "cpu-starvation" for row in rows)
                continue
            is_right, function, more = judged(case, found)
            right += is_right
            named += function == "named"
            on_stack += function == "stack"
            beyond += more
            longest = max((row["longest_ns"] for row in rows if row["cause"] in case.causes), default=0) / 1e6
            lengths.append(f"{longest:.1f}/{truth:.1f}")
            if wait and longest:
                errors.append(f"{100 * (longest - wait) / wait:+.1f} % ({longest - wait:+.1f} ms of {wait:.1f})")
    asked = f"{named} ({on_stack})" if case.function else "-"
    total = args.totals.setdefault(mode, dict.fromkeys(TOTALS, 0))
    for word, count in zip(TOTALS, (args.times * bool(case.causes), right, args.times * bool(case.function), named, on_stack, beyond, false_rows, starved)):
        total[word] += count
    print(
        f"| {' '.join([case.service, case.kind, *case.flags])}{' + ' + case.around if case.around else ''} | {mode} | {right} of {args.times} | {asked} | {beyond} | "
        f"{false_rows} ({starved}) | {', '.join(lengths)} | {', '.join(errors) or '-'} | {min(costs, default=0):.1f} to {max(costs, default=0):.1f} | {lost} |",
        flush=True,
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("highwater", type=os.path.abspath)
    parser.add_argument("--modes", default="ebpf,rootless")
    parser.add_argument("--only", default="")
    parser.add_argument("--times", type=int, default=1)
    parser.add_argument("--seconds", type=int, default=6)
    parser.add_argument("--rows", action="store_true")
    args = parser.parse_args()
    args.totals = {}
    folder = tempfile.mkdtemp()
    os.chmod(folder, 0o755)
    # The other user may not see the folder of the build.
    args.highwater = shutil.copy(args.highwater, folder)
    try:
        built = build(folder)
        with open("/proc/loadavg", encoding="ascii") as load:
            print(f"load average {load.read().split()[0]}, {args.times} watches of {args.seconds} s each\n")
        print("| service | mode | cause right | function named (on the stack) | rows too many | mended: rows (starvation) | longest ms, found/true | error of the wait | own cost, % of a core | lost |")
        print("|---|---|---|---|---|---|---|---|---|---|")
        for case in CASES:
            words = " ".join([case.service, case.kind, *case.flags, case.around])
            if case.service not in built or args.only and not any(word in words for word in args.only.split(",")):
                continue
            for mode in args.modes.split(","):
                exam(args, case, built[case.service], mode)
        for mode, total in args.totals.items():
            print(f"{mode}: " + ", ".join(f"{word} {count}" for word, count in total.items()), flush=True)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
