#!/usr/bin/env python3
"""Measures the pools of subjects/fibre side by side, and prints Markdown tables.

    python3 bench/compare/slab/run.py                  every cell: about 25 minutes, 6 GiB of free memory
    python3 bench/compare/slab/run.py --cells fresh,ten --arms split,row --seconds 20 --rounds 1
    python3 bench/compare/slab/run.py --micro          micro benchmarks through benchstat
    python3 bench/compare/slab/run.py --bars           the pool alone against its limits; ends with 1 if one is missed

The arms of a cell take turns, one process at a time, `--rounds` times; a table shows the median of
the rounds and their spread. `row` is the pool that the history's authors run today: its source
comes from the Go module proxy into a temporary folder, and is built into the subject there.
"""

import json
import os
import pathlib
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1]))
from harness import MIB, ROOT, load_averages, parser, print_head, print_row, processor, spread  # noqa: E402

PEER = "github.com/celestiaorg/celestia-app/v9@v9.0.8"
BENCHSTAT = "golang.org/x/perf/cmd/benchstat@v0.0.0-20260908200009-22c9c6c9d4da"
IDLE = "14s"

# name: (what, arguments, arms, seconds of load unless --seconds says other)
MIXED = "1MiB,8MiB,32MiB,64MiB"
CELLS = {
    "reused": ("32 MiB, 4 in flight, reused input", "-sizes 32MiB -in-flight 4 -input reused", 20),
    "fresh": ("32 MiB, 4 in flight, input per upload", "-sizes 32MiB -in-flight 4 -input fresh", 20),
    "mixed": (f"{MIXED}, 4 in flight, reused input", f"-sizes {MIXED} -in-flight 4 -input reused", 30),
    "mixed-fresh": (f"{MIXED}, 4 in flight, input per upload", f"-sizes {MIXED} -in-flight 4 -input fresh", 30),
    "small": ("1 MiB, 4 in flight, input per upload", "-sizes 1MiB -in-flight 4 -input fresh", 15),
    "one": ("128 MiB, 1 in flight, reused input", "-sizes 128MiB -in-flight 1 -input reused", 20),
    "ten": ("128 MiB, 10 in flight, reused input", "-sizes 128MiB -in-flight 10 -input reused", 80),
}
ARMS = ["make", "syncpool", "row", "shared", "split"]
# What the split arm must keep: peak / floor, median / floor.
BARS = {"reused": (1.05, 1.05), "fresh": (1.10, 1.10), "mixed": (1.20, 1.10), "mixed-fresh": (1.20, 1.10),
        "one": (1.05, 1.05)}
IDLE_BAR = 1.05  # over the base, 14 s after the load
CHURN_BAR = 8  # MiB a minute, grown and purged, one size
LARGE = ["row", "split"]  # arms of the cell that needs 6 GiB with the frugal ones


def run(command, **more):
    done = subprocess.run(command, text=True, capture_output=True, **more)
    if done.returncode:
        sys.exit(f"{' '.join(command)} ended with {done.returncode}:\n{done.stderr}")
    return done.stdout


def stage_peer(folder):
    """The peer's package as a module of its own; its tests stay behind."""
    source = json.loads(run(["go", "mod", "download", "-json", PEER], cwd=folder))["Dir"]
    row = folder / "row"
    row.mkdir()
    for file in (pathlib.Path(source) / "fibre/internal/row").glob("*.go"):
        if not file.name.endswith("_test.go"):
            shutil.copyfile(file, row / file.name)
    (row / "go.mod").write_text("module peer.example/row\n\ngo 1.25\n\n"
                                "require github.com/klauspost/reedsolomon v1.14.2\n")
    return row


def modfile(folder, module, row):
    """A copy of the module's go.mod that knows the peer, with absolute replacements."""
    text = (module / "go.mod").read_text()
    for relative in ("../../slab/reedsolomon", "../../slab", "../../../../slab"):
        target = (module / relative).resolve()
        text = text.replace(f"=> {relative}\n", f"=> {target}\n")
    text += f"\nrequire peer.example/row v0.0.0\n\nreplace peer.example/row => {row}\n"
    path = folder / f"{module.name}.mod"
    path.write_text(text)
    shutil.copyfile(module / "go.sum", path.with_suffix(".sum"))
    return path


def build(folder, row):
    """The subject with the peer's arm laid over it."""
    module = ROOT / "subjects/fibre"
    overlay = folder / "overlay.json"
    overlay.write_text(json.dumps({"Replace": {str(module / "peer_row.go"): str(HERE / "peer_row.go.txt")}}))
    binary = folder / "fibre"
    run(["go", "build", "-mod=mod", f"-modfile={modfile(folder, module, row)}", f"-overlay={overlay}",
         "-o", str(binary), "."], cwd=module)
    return binary


def measure(binary, arm, arguments, seconds, idle):
    command = [str(binary), "-arm", arm, "-report", "-load-for", f"{seconds}s", *arguments.split()]
    if idle:
        command += ["-idle-for", IDLE]
    return json.loads(run(command))


def table(name, arms, reports):
    what = CELLS[name][0]
    floor = statistics.median(r["floor_bytes"] for a in arms for r in reports[a]) / MIB
    print(f"\n### {what}\n\nFloor {floor:.0f} MiB.\n")
    print_head("arm", "peak MiB", "peak / floor", "median / floor", "idle / base", "idle after s", "uploads",
               "MiB per CPU-s", "GCs", "faults per upload", "grown and purged, MiB/min")
    for arm in arms:
        rs = reports[arm]

        def of(key, form, scale=1.0):
            return spread([r[key] * scale for r in rs], form)

        idle = [r["idle_rss_bytes"] / r["base_bytes"] for r in rs]
        after = [r["idle_return_seconds"] for r in rs]
        shown = "not in 14 s" if min(after) < 0 else spread(after, "{:.1f}")
        if idle[0] == 0:  # --no-idle
            shown = "-"
        churn = of("grow_purge_mib_per_minute", "{:.1f}") if rs[0]["pools"] else "-"
        whole = (of(key, "{:.0f}") for key in ("uploads", "mib_per_cpu_second", "gc_cycles", "faults_per_upload"))
        print_row(arm, of("rss_peak_bytes", "{:.0f}", 1 / MIB), of("peak_over_floor", "{:.3f}"),
                  of("median_over_floor", "{:.3f}"), spread(idle), shown, *whole, churn)


def machine():
    print(f"{run(['date', '+%F %H:%M']).strip()}, {processor()}, {os.cpu_count()} processors, Linux "
          f"{platform.release()}, {run(['go', 'version']).split()[2]}, {load_averages()}", flush=True)


def bars(folder, seconds, wanted):
    """Memory only: nothing that depends on the machine's speed is checked."""
    binary = folder / "fibre"
    run(["go", "build", "-o", str(binary), "."], cwd=ROOT / "subjects/fibre")
    missed = 0
    for cell, (peak, median) in BARS.items():
        if cell not in wanted:
            continue
        what, arguments, usual = CELLS[cell]
        r = measure(binary, "split", arguments, seconds or max(usual, 30), True)
        checks = [("peak / floor", r["peak_over_floor"], peak), ("median / floor", r["median_over_floor"], median),
                  ("idle / base", r["idle_rss_bytes"] / r["base_bytes"], IDLE_BAR)]
        if not cell.startswith("mixed"):
            checks.append(("MiB grown and purged a minute", r["grow_purge_mib_per_minute"], CHURN_BAR))
        for name, value, limit in checks:
            missed += value > limit
            print(f"{'pass' if value <= limit else 'FAIL'}  {what}: {name} {value:.3f}, limit {limit}", flush=True)
    return missed


def adversarial(folder, module, row):
    for pool in ("slab", "row", "sync.Pool"):
        printed = run(["go", "test", "-mod=mod", f"-modfile={modfile(folder, module, row)}",
                       "-run", "^TestAdversarial$", "-v", "-count", "1", "."],
                      cwd=module, env=dict(os.environ, SLAB_BENCH_POOL=pool))
        print(next(line for line in printed.splitlines() if "adversarial" in line).split(": ", 1)[1], flush=True)


def micro(folder, row, count):
    module = HERE / "micro"
    adversarial(folder, module, row)
    text = run(["go", "test", "-mod=mod", f"-modfile={modfile(folder, module, row)}", "-run", "^$", "-bench", ".",
                "-count", str(count), "-benchtime", "200ms", "-timeout", "60m", "."], cwd=module)
    raw = folder / "micro.txt"
    raw.write_text(text)
    print(run(["go", "run", BENCHSTAT, "-col", "/pool", str(raw)]))


def main():
    parse = parser(__doc__)
    parse.add_argument("--cells", default=",".join(CELLS))
    parse.add_argument("--arms", default="")
    parse.add_argument("--seconds", type=int, default=0)
    parse.add_argument("--rounds", type=int, default=3)
    parse.add_argument("--no-idle", action="store_true")
    parse.add_argument("--micro", action="store_true")
    parse.add_argument("--bars", action="store_true")
    parse.add_argument("--count", type=int, default=10, help="runs of each micro benchmark")
    chosen = parse.parse_args()
    if not shutil.which("go"):
        sys.exit("SKIPPED: there is no go on the PATH; install Go 1.26")
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        machine()
        if chosen.bars:
            sys.exit(bars(folder, chosen.seconds, chosen.cells.split(",")) > 0)
        row = stage_peer(folder)
        if chosen.micro:
            return micro(folder, row, chosen.count)
        binary = build(folder, row)
        for cell in chosen.cells.split(","):
            _, arguments, seconds = CELLS[cell]
            arms = chosen.arms.split(",") if chosen.arms else LARGE if cell == "ten" else ARMS
            reports = {arm: [] for arm in arms}
            for _ in range(chosen.rounds):
                for arm in arms:
                    reports[arm].append(
                        measure(binary, arm, arguments, chosen.seconds or seconds, not chosen.no_idle))
            table(cell, arms, reports)
        machine()


if __name__ == "__main__":
    main()
