#!/usr/bin/env python3
"""One table of all that the history's had, an arm a row: from a run, and from what a run cannot see.

    bench/compare/treasure/inside.py > inside.md                 share of the CPU in the allocator, time of a call
    bench/compare/treasure/builds.py > builds.md                 size, clean and incremental build time
    bench/compare/treasure/table.py runs/RUN [inside.md] [builds.md]

The run gives latency, memory, allocations, pauses and CPU. A column of the others stays empty (-) for an arm whose
binary is not in their tables: an arm under a preloaded allocator runs the plain binary, whose build has another one.
"""
import json
import re
import sqlite3
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from harness import HIGHWATER, MIB, print_head, print_row  # noqa: E402

MISSING = "-"
COLUMNS = ["arm", "p50 ms", "p99", "p99.9", "max", "RSS MiB [95 %]", "peak", "trend", "coins drawn/s",
           "call ns mean / p99", "pauses >= 1 ms a minute", "CPU user + system %", "in the allocator %",
           "in its locks %", "binary MiB", "clean build s", "incremental s"]


def report(run):
    done = subprocess.run([HIGHWATER, "report", run, "--format", "json"], capture_output=True, text=True)
    if not done.stdout.startswith("{"):
        sys.exit(f"no report of {run}: {done.stderr.strip()}")
    return json.loads(done.stdout)


def drawn_per_s(run, warmup_s):
    """Payloads drawn a second and process, by arm: from the first snapshot after the warm-up to each process's last."""
    base = sqlite3.connect(f"file:{Path(run) / 'run.db'}?mode=ro", uri=True)
    rows = base.execute("""
        select process.arm, min(sample.value), max(sample.value), min(sample.time), max(sample.time)
        from sample join process on process.id = sample.process
        where sample.metric = 'openmetrics:treasure_drawn_total' and sample.time >= (select min(time) from look) + ?
        group by process.id""", (int(warmup_s * 1e9),)).fetchall()
    of = {}
    for arm, first, last, begun, ended in rows:
        if ended > begun:
            of.setdefault(arm, []).append((last - first) / (ended - begun) * 1e9)
    return {arm: sum(rates) / len(rates) for arm, rates in of.items()}


def rows_of(path):
    """Rows of a Markdown table by their first cell."""
    found, head = {}, []
    for line in Path(path).read_text().splitlines() if path else []:
        cells = [cell.strip(" *") for cell in line.strip().strip("|").split("|")]
        if not line.startswith("|") or set(cells[0]) <= {"-", ":"}:
            continue
        if head:
            found[cells[0]] = dict(zip(head, cells))
        head = head or cells
    return found


def binary_of(arm):
    """Name of the server's build that an arm runs, if its allocator is linked into it."""
    found = re.search(r"treasure-([a-z0-9-]+?)(?: |$)", arm["command"] or "")
    if arm["allocator"] not in ("", "glibc"):
        return None
    return found[1] if found else "system"


def cells(arm, drawn, inside, builds):
    binary = binary_of(arm)
    own, built = inside.get(binary, {}), builds.get(binary, {})
    ms = lambda name: f"{arm[name] / 1e6:.3g}" if arm.get(name) is not None else MISSING
    mib = lambda name: f"{arm[name] / MIB:.1f}" if arm.get(name) is not None else MISSING
    call = f"{own['mean ns']} / {own['p99 ns']}" if own.get("mean ns", MISSING) != MISSING else MISSING
    return [arm["arm"], ms("latency_p50_ns"), ms("latency_p99_ns"), ms("latency_p999_ns"), ms("latency_max_ns"),
            f"{mib('rss_bytes')} [{mib('rss_lo_bytes')}, {mib('rss_hi_bytes')}]", mib("rss_peak_bytes"),
            arm["label"] or MISSING,
            f"{drawn[arm['arm']]:,.0f}" if arm["arm"] in drawn else MISSING, call, pauses(arm),
            f"{100 * (arm['cpu_user_cores'] or 0):.2f} + {100 * (arm['cpu_system_cores'] or 0):.2f}",
            own.get("allocator %", MISSING), own.get("its locks %", MISSING), built.get("binary MiB", MISSING),
            built.get("clean s", MISSING), built.get("again s", MISSING)]


def pauses(arm):
    """Never a bare zero: what is not there is as good as the time that was watched."""
    found = arm.get("pauses")
    if not found:
        return MISSING
    if found["found_count"] == 0:
        return f"none in {found['watched_s'] / 60:.1f} min"
    return f"{found['found_per_minute']:.0f}"


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    run, inside, builds = (sys.argv[1:] + [None, None])[:3]
    found = report(run)
    drawn, inside, builds = drawn_per_s(run, found["warmup_s"]), rows_of(inside), rows_of(builds)
    print_head(*COLUMNS)
    for arm in found["arms"]:
        print_row(*cells(arm, drawn, inside, builds))
    print("\nWhen pauses come:\n")
    for arm in found["arms"]:
        if arm.get("pauses"):
            print(f"- {arm['arm']}: {arm['pauses']['words']}")


if __name__ == "__main__":
    main()
