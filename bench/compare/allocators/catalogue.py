#!/usr/bin/env python3
"""Adds every allocator of the catalogue from nothing, twice, and checks it: what works today.

    python3 bench/compare/allocators/catalogue.py --highwater target/release/highwater --jobs 2

Two empty cache folders, both removed at the end, unless --first or --second names one to keep: what it holds
already is not added again (the time of an add stands in its manifest), and a check that it kept is taken as it is.
Writes bench/results/DATE-catalogue.md.
"""

import concurrent.futures
import datetime
import json
import os
import pathlib
import platform
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
from harness import HIGHWATER, RESULTS, load_averages, parser  # noqa: E402


def highwater(binary, cache, *words):
    """The exit code, what was said as JSON (None if nothing), and the last line of stderr."""
    done = subprocess.run(
        [binary, "allocators", *words, "--json", "--quiet"],
        env={**os.environ, "HIGHWATER_CACHE": str(cache)},
        capture_output=True,
        text=True,
    )
    last = (done.stderr.strip().splitlines() or [""])[-1]
    entries = json.loads(done.stdout)["allocators"] if done.stdout.strip() else []
    return done.returncode, (entries[0] if entries else None), last


def seconds(cache, spec):
    """How long the add of what is installed took."""
    return json.loads((cache / "allocators" / spec / "manifest.json").read_text())["seconds"]


def kept_checks(binary, cache):
    """The checks that a cache holds, by name."""
    command = [binary, "allocators", "list", "--json"]
    environment = {**os.environ, "HIGHWATER_CACHE": str(cache)}
    text = subprocess.run(command, env=environment, check=True, capture_output=True).stdout
    return {entry["spec"]: entry["check"] for entry in json.loads(text)["allocators"]}


def try_one(binary, spec, first, second, kept):
    row = {"spec": spec}
    code, entry, last = highwater(binary, second, "add", spec)
    if code:
        return {**row, "failed": last}
    row["source"], row["add_s"] = entry["source"], seconds(second, spec)
    _, again, _ = highwater(binary, first, "add", spec)
    row["same"] = bool(again) and again["sha256"] == entry["sha256"]
    row["check"] = kept.get(spec)
    if not row["check"]:
        _, entry, last = highwater(binary, second, "check", spec)
        if not entry:
            return {**row, "failed": last}
        row["check"] = entry["check"]
    return row


def words_of(check, outcomes):
    return "; ".join(f["probe"] for f in check["findings"] if f["outcome"] in outcomes) or "-"


def line(row):
    if "failed" in row:
        return f"| {row['spec']} | | failed: {row['failed']} | | | | | |"
    check = row["check"]
    stops = [p["misuse"] for p in check["protections"] if p["answer"] == "stops"]
    source = row["source"].split(";")[0].split("+5.3")[0]
    return (
        f"| {row['spec']} | {row['add_s']:.0f} | {source} | {'yes' if row['same'] else 'no'} "
        f"| {check['seconds']:.0f} | {words_of(check, ('defect', 'crash', 'hang'))} "
        f"| {words_of(check, ('deviation',))} | {', '.join(stops) or '-'} |"
    )


def main():
    options = parser(__doc__)
    options.add_argument("--highwater", default=str(HIGHWATER))
    options.add_argument("--jobs", type=int, default=1)
    for name in ("--first", "--second"):
        options.add_argument(name, type=pathlib.Path, help="a cache folder to keep, or one that was filled before")
    args = options.parse_args()
    binary = str(pathlib.Path(args.highwater).resolve())
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as two:
        first, second = args.first or pathlib.Path(one), args.second or pathlib.Path(two)
        kept = kept_checks(binary, second)
        text = subprocess.run([binary, "allocators", "list", "--json"], check=True, capture_output=True).stdout
        specs = [e["spec"] for e in json.loads(text)["allocators"] if e["spec"] != "glibc"]
        # The slow one first.
        specs.sort(key=lambda spec: (not spec.startswith("tcmalloc"), spec))
        with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
            rows = list(pool.map(lambda spec: try_one(binary, spec, first, second, kept), specs))
    rows.sort(key=lambda row: row["spec"])
    date = datetime.date.today().isoformat()
    head = (
        f"# The catalogue, added from nothing and checked, {date}\n\n"
        f"{os.cpu_count()} processors, Linux {platform.release()}, glibc {platform.libc_ver()[1]}; {load_averages()} "
        f"at the end, {args.jobs} at a time. *Add*: wall seconds from an empty cache. *Same bytes*: as another build "
        "of the same recipe. *Check*: wall seconds. Probes that are not named found nothing; those that were not tried "
        "in time are below the table.\n\n"
        "| allocator | add s | from | same bytes | check s | defects found | deviations | stops |\n"
        "|---|--:|---|---|--:|---|---|---|\n"
    )
    untried = [
        f"- {row['spec']}: {words_of(row['check'], ('untried',))}"
        for row in rows
        if "check" in row and words_of(row["check"], ("untried",)) != "-"
    ]
    tail = ["", "Not tried in time:", "", *untried] if untried else []
    path = RESULTS / f"{date}-catalogue.md"
    path.write_text(head + "\n".join([line(row) for row in rows] + tail) + "\n")
    print(path)


if __name__ == "__main__":
    main()
