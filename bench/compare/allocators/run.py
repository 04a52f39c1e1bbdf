#!/usr/bin/env python3
"""Every allocator that is installed, each start next to one of glibc, over a few classic shapes.

    python3 bench/compare/allocators/run.py --highwater target/release/highwater --pairs 5

Writes bench/results/DATE-allocators.md (the tables), .svg (the chart) and .json (every start). Needs a C compiler.
"""

import datetime
import json
import math
import os
import pathlib
import platform
import random
import shutil
import statistics
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1]))
from harness import HIGHWATER, MIB, RESULTS, compile_c, load_averages, parser, processor  # noqa: E402

SHAPES = ["handoff", "larson", "survivors", "aligned", "big", "threads"]
LIMIT_S = 20
LEGEND = """`bench/compare/allocators/run.py`: every installed allocator over six fixed amounts of work (`shapes.c`).

| shape | what happens |
|---|---|
| handoff | two threads make messages of 64 to 1,464 bytes, two others free them |
| larson | four threads replace blocks of 16 to 516 bytes in tables that outlive them, eight generations |
| survivors | generations of other sizes; one block in ten survives, anywhere |
| aligned | blocks of up to 2,000 bytes aligned to 16 to 256 |
| big | blocks of 64 KiB to 2 MiB, touched |
| threads | 64 threads, blocks of 16 to 256 bytes |

*CPU x glibc*: user and system time of a start, divided by that of the glibc start beside it. *End RSS* is read right
after everything was freed: an allocator that returns memory after seconds has not done so yet. These are small
programs: read classes (half, same, twice, five times), not digits, and decide by an experiment with your service.
"""
# Tunings of glibc and jemalloc that people try first; jemalloc's with the version named.
TUNED = [
    ("glibc", "MALLOC_ARENA_MAX", "1"),
    ("glibc", "MALLOC_ARENA_MAX", "2"),
    ("glibc", "MALLOC_TRIM_THRESHOLD_", "131072"),
    ("glibc", "MALLOC_MMAP_THRESHOLD_", "65536"),
    ("glibc", "GLIBC_TUNABLES", "glibc.malloc.tcache_count=0"),
    ("jemalloc@5.3.1", "MALLOC_CONF", "dirty_decay_ms:0,muzzy_decay_ms:0"),
    ("jemalloc@5.3.1", "MALLOC_CONF", "background_thread:true"),
    ("jemalloc@5.3.1", "MALLOC_CONF", "narenas:1"),
]


def arms(highwater):
    """(name, words before the program, environment) of each allocator that is ready."""
    text = subprocess.run([highwater, "allocators", "list", "--json"], check=True, capture_output=True).stdout
    found, missing = {}, []
    for entry in json.loads(text)["allocators"]:
        if entry["state"] == "system":
            found[entry["spec"]] = ([], {})
        elif entry["state"] != "installed":
            missing.append(entry["spec"])
        elif entry["loader"]:
            loader = entry["loader"]
            found[entry["spec"]] = ([loader["program"], "--library-path", loader["library_path"]], {})
        else:
            preload = ":".join(entry["companions"] + [entry["path"]])
            found[entry["spec"]] = ([], {"LD_PRELOAD": preload})
    for spec, variable, value in TUNED:
        if spec in found:
            words, environment = found[spec]
            found[f"{spec} {variable}={value}"] = (words, {**environment, variable: value})
    return found, missing


def start(program, shape, seed, arm):
    """One start: its figures, or how it failed."""
    words, environment = arm
    try:
        done = subprocess.run(
            words + [str(program), shape, str(seed)],
            env={**os.environ, **environment},
            capture_output=True,
            timeout=LIMIT_S,
        )
    except subprocess.TimeoutExpired:
        return {"failed": f"not done in {LIMIT_S} s"}
    if done.returncode:
        return {"failed": f"exit code {done.returncode}"}
    return json.loads(done.stdout)


def measure(program, found, pairs, seed):
    """Rounds over all arms in random order; each start of an arm has its own start of glibc beside it.

    Gives the rows so far after each round: what is interrupted later keeps them.
    """
    order = random.Random(seed)
    rows = []
    for pair in range(pairs):
        turns = [(name, shape) for name in found for shape in SHAPES]
        order.shuffle(turns)
        for number, (name, shape) in enumerate(turns):
            both = [("arm", found[name]), ("glibc", ([], {}))]
            order.shuffle(both)
            row = {"arm": name, "shape": shape, "pair": pair}
            for which, arm in both:
                row["own" if which == "arm" else "beside"] = start(program, shape, pair + 1, arm)
            rows.append(row)
            print(f"pair {pair + 1}/{pairs}: {number + 1}/{len(turns)} {name} {shape}", flush=True)
        yield pair + 1, rows


def middle_and_ends(values):
    return (statistics.median(values), min(values), max(values))


def summarise(rows, found):
    """By arm and shape: ratios to glibc and absolute figures, as (median, least, most)."""
    table = {}
    for name in found:
        for shape in SHAPES:
            mine = [r for r in rows if r["arm"] == name and r["shape"] == shape]
            good = [r for r in mine if "failed" not in r["own"] and "failed" not in r["beside"]]
            failed = [r["own"]["failed"] for r in mine if "failed" in r["own"]]
            cell = {"failed": failed, "count": len(mine)}
            if good:
                cpu = lambda r: max(r["user_ns"] + r["system_ns"], 1)
                ratio = lambda of: middle_and_ends([of(r["own"]) / of(r["beside"]) for r in good])
                cell["cpu_ratio"] = ratio(cpu)
                cell["wall_ratio"] = ratio(lambda r: r["wall_ns"])
                cell["cpu_ms"] = middle_and_ends([cpu(r["own"]) / 1e6 for r in good])
                for key in ("peak_rss_bytes", "end_rss_bytes"):
                    cell[key] = middle_and_ends([r["own"][key] for r in good])
                    cell[key + "_beside"] = statistics.median([r["beside"][key] for r in good])
                cell["minor_faults"] = middle_and_ends([r["own"]["minor_faults"] for r in good])
            table[(name, shape)] = cell
    return table


def mib(value):
    return f"{value / MIB:.0f}" if value >= 10 * MIB else f"{value / MIB:.1f}"


def shape_table(table, found, shape):
    lines = [
        "| allocator | CPU x glibc | time x glibc | CPU ms | peak RSS MiB | end RSS MiB | faults |",
        "|---|--:|--:|--:|--:|--:|--:|",
    ]
    for name in found:
        cell = table[(name, shape)]
        if "cpu_ratio" not in cell:
            lines.append(f"| {name} | failed: {cell['failed'][0]} | | | | | |")
            continue
        ratio = lambda key: "{:.2f} [{:.2f} to {:.2f}]".format(*cell[key])
        note = f" ({len(cell['failed'])} of {cell['count']} failed)" if cell["failed"] else ""
        lines.append(
            f"| {name}{note} | {ratio('cpu_ratio')} | {ratio('wall_ratio')} | {cell['cpu_ms'][0]:.0f} "
            f"| {mib(cell['peak_rss_bytes'][0])} | {mib(cell['end_rss_bytes'][0])} "
            f"| {cell['minor_faults'][0]:.0f} |"
        )
    return "\n".join(lines)


def overall(table, name, key):
    """Geometric mean over the shapes that worked of an arm's ratio to glibc; None if none did."""
    values = []
    for shape in SHAPES:
        cell = table[(name, shape)]
        if key in cell:
            own = cell[key][0]
            values.append(own if key.endswith("ratio") else own / cell[key + "_beside"])
    return math.exp(statistics.fmean(map(math.log, values))) if values else None


def chart(table, found, path, title):
    """Dots on a scale of doublings, one row for each allocator: CPU time, peak RSS, end RSS."""
    keys = [("cpu_ratio", "CPU time"), ("peak_rss_bytes", "peak RSS"), ("end_rss_bytes", "end RSS")]
    names = sorted(found, key=lambda name: overall(table, name, "cpu_ratio") or 99)
    left, wide, high, top = 400, 250, 17, 70
    width, height = left + len(keys) * (wide + 30), top + high * len(names) + 20
    at = lambda column, ratio: left + column * (wide + 30) + wide * (math.log2(min(max(ratio, 0.25), 16)) + 2) / 6
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" '
        f'font-size="11"><rect width="{width}" height="{height}" fill="#fff"/>',
        f'<text x="10" y="18" font-size="14">{title}</text>',
        '<text x="10" y="36" fill="#555">Geometric mean over the shapes, as a multiple of glibc beside it; '
        "further left is less. What is past 16 stands at 16.</text>",
    ]
    bottom = top + high * len(names)
    for column, (_, words) in enumerate(keys):
        out.append(f'<text x="{at(column, 2):.0f}" y="52" text-anchor="middle">{words}</text>')
        for ratio in (0.25, 0.5, 1, 2, 4, 8, 16):
            x, colour = at(column, ratio), "#888" if ratio == 1 else "#e3e3e3"
            out.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{top - 6}" y2="{bottom}" stroke="{colour}"/>')
            style = 'text-anchor="middle" fill="#777" font-size="9"'
            out.append(f'<text x="{x:.1f}" y="{top - 8}" {style}>{ratio:g}</text>')
    for row, name in enumerate(names):
        y = top + high * row + high / 2
        out.append(f'<text x="{left - 12}" y="{y + 4:.1f}" text-anchor="end">{name}</text>')
        for column, (key, _) in enumerate(keys):
            ratio = overall(table, name, key)
            if ratio is not None:
                out.append(f'<circle cx="{at(column, ratio):.1f}" cy="{y:.1f}" r="4" fill="#1f6feb"/>')
    out.append("</svg>\n")
    path.write_text("\n".join(out))


def machine():
    huge = pathlib.Path("/sys/kernel/mm/transparent_hugepage/enabled")
    thp = huge.read_text().split("[")[1].split("]")[0] if huge.exists() else "unknown"
    return (
        f"{os.cpu_count()} processors ({processor()}), Linux {platform.release()}, "
        f"glibc {platform.libc_ver()[1]}, transparent huge pages {thp}"
    )


def write(table, found, missing, facts, date):
    title = f"Allocators, {date}"
    chart(table, found, RESULTS / f"{date}-allocators.svg", title)
    parts = [f"# {title}\n\n{facts}\n\n{LEGEND}", f"![{title}]({date}-allocators.svg)\n"]
    if missing:
        parts.append("Not installed, so not measured: " + ", ".join(missing) + ".\n")
    for shape in SHAPES:
        parts.append(f"## {shape}\n\n{shape_table(table, found, shape)}\n")
    (RESULTS / f"{date}-allocators.md").write_text("\n".join(parts))


def main():
    options = parser(__doc__)
    options.add_argument("--highwater", default=shutil.which("highwater") or str(HIGHWATER))
    options.add_argument("--pairs", type=int, default=5)
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--only", default="", help="comma-separated names")
    args = options.parse_args()
    found, missing = arms(args.highwater)
    if args.only:
        found = {name: arm for name, arm in found.items() if name in args.only.split(",")}
    date, before = datetime.date.today().isoformat(), load_averages()
    with tempfile.TemporaryDirectory() as folder:
        program = compile_c(HERE / "shapes.c", f"{folder}/shapes", "-O2", "-fno-builtin", "-pthread")
        for done, rows in measure(program, found, args.pairs, args.seed):
            facts = (
                f"{machine()}; {before} at the start, {load_averages()} at the end; pairs: {done}, seed {args.seed}. "
                "Median [least to most]; each start stood next to one of glibc, in random order; "
                f"{LIMIT_S} s at most."
            )
            raw = {"schema": "highwater.bench.allocators/1", "facts": facts, "rows": rows}
            (RESULTS / f"{date}-allocators.json").write_text(json.dumps(raw) + "\n")
            write(summarise(rows, found), found, missing, facts, date)


if __name__ == "__main__":
    main()
