"""Plays an experiment of many processes hour by hour, as its operator would have seen it, and says when each
pair of neighbours in the final ranking was told apart, what was said wrongly on the way, and what the audit refused.

    python3 bench/verdict/replay.py                                  a made experiment of 200 processes
    python3 bench/verdict/replay.py FILE [--groups FILE[@TIME]] ...  a real one (what `highwater verdict` reads)

The made one has the shape of a published experiment: one host, 200 relays, five arms of 20, 80, 60, 20 and 20;
three arms run for three days before the last two are founded by processes that are restarted into them; nine
processes leave one arm for the others on the way (that arm is contaminated); two arms are restarted in the middle;
one arm grows; all share one load. Hours count from the start of the last arms. Needs target/release/highwater, or another with --tool.
"""

import argparse
import csv
import datetime
import json
import math
import pathlib
import random
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
TOOL = ROOT / "target" / "release" / "highwater"
BEFORE_H, AFTER_H = 72, 144
EPOCH = datetime.datetime(2026, 1, 5)
# Arm, processes, level at which it ends (GiB), hours to two thirds of it, growth per hour after that (GiB),
# spread between processes, hours of its restarts.
ARMS = [
    ("old-malloc", 20, 4.0, 30.0, 0.0, 0.35, []),
    ("je", 80, 2.64, 22.0, 0.0, 0.12, [58]),
    ("mi-3", 20, 2.6, 10.0, 0.040, 0.15, []),
    ("mi-2a", 60, 1.28, 14.0, 0.0, 0.12, [61]),
    ("mi-2b", 20, 1.72, 18.0, 0.0, 0.15, []),
]
YOUNG = {"mi-2a", "mi-2b"}
TRUTH = ["mi-2a", "mi-2b", "je", "mi-3"]


def relay(rng, arm, births):
    """RSS over the hours of one relay that is born at each of `births` (hour, arm)."""
    spec = {a[0]: a for a in ARMS}
    own, drift = {}, 0.0
    for hour in range(-BEFORE_H, AFTER_H + 1):
        now = [b for b in births if b[0] <= hour]
        if not now:
            continue
        born, name = now[-1]
        _, _, level, tau, growth, spread, _ = spec[name]
        own.setdefault(name, math.exp(rng.gauss(0.0, spread)))
        age = hour - born
        drift = 0.9 * drift + math.sqrt(1 - 0.81) * rng.gauss(0.0, 1.0)
        load = 1.0 + 0.03 * math.sin(2 * math.pi * hour / 24.0)
        gib = own[name] * (0.25 + (level - 0.25) * (1 - math.exp(-age / tau)) + growth * age)
        yield hour, name, born, gib * load * (1.0 + 0.015 * drift)


def make(path, seed):
    """Writes the made experiment in the form that relay operators publish (RSS, high-water mark, group)."""
    rng = random.Random(seed)
    out = csv.writer(path.open("w", newline=""))
    out.writerow(["timestamp", "type", "nickname", "group", "rss_kb", "hwm_kb"])
    rows = []
    for a, (arm, count, *_, restarts) in enumerate(ARMS):
        for p in range(count):
            start = 0 if arm in YOUNG else -BEFORE_H
            births = [(start, arm)] + [(h + rng.random(), arm) for h in restarts]
            if arm in YOUNG:
                births.insert(0, (-BEFORE_H, "je"))
            if arm == "old-malloc" and p < 9:
                births.append((40 + p, rng.choice(["je", "mi-2a"])))
            high, last = 0.0, None
            for hour, name, born, gib in relay(rng, arm, births):
                high = gib if born != last else max(high, gib)
                last = born
                when = EPOCH + datetime.timedelta(hours=hour, seconds=7 * a)
                kib = int(gib * 1048576)
                rows.append((hour, [when.isoformat(), "relay", f"{arm}-{p:02}", name, kib, int(high * 1048576)]))
    for _, row in sorted(rows, key=lambda r: r[0]):
        out.writerow(row)


def judge(tool, file, groups, until):
    """What the tool says of the run up to an instant: audit, arms and pairs."""
    command = [tool, "verdict", file, "--arms", "--all-pairs", "--json", "--until", until]
    for g in groups:
        command += ["--groups", g]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode not in (0, 1):
        sys.exit(f"{' '.join(map(str, command))}\n{done.stderr}")
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    return {kind: [l for l in lines if l["kind"] == kind] for kind in ("audit", "arm", "pair")}


def sides(pairs):
    """Who is said to be lower, by pair; None when they are not told apart."""
    said = {}
    for p in pairs:
        lo, hi = p.get("lo"), p.get("hi")
        decided = p.get("decided", lo is not None and (lo > 1 or hi < 1))
        lower = None
        if decided and lo is not None:
            lower = p["a"] if hi < 1 else p["b"] if lo > 1 else None
        said[frozenset((p["a"], p["b"]))] = lower
    return said


def main():
    ask = argparse.ArgumentParser()
    ask.add_argument("file", nargs="?")
    ask.add_argument("--groups", action="append", default=[])
    ask.add_argument("--truth", help="the right ranking, low to high: A,B,C (default: as said at the end)")
    ask.add_argument("--start", help="instant from which hours count (ISO 8601); default the first reading")
    ask.add_argument("--hours", type=float, help="length in hours from there")
    ask.add_argument("--step", type=float, default=12.0)
    ask.add_argument("--seed", type=int, default=1)
    ask.add_argument("--tool", type=pathlib.Path, default=TOOL, help="the highwater to ask")
    o = ask.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        file, start, hours, truth = o.file, o.start, o.hours, o.truth and o.truth.split(",")
        if not file:
            file = pathlib.Path(folder) / "relays.csv"
            make(file, o.seed)
            start, hours, truth = EPOCH.isoformat(), hours or AFTER_H, truth or TRUTH
        if not start or not hours:
            sys.exit("--start and --hours say which part of a real run is played")
        play(o.tool, file, o.groups, datetime.datetime.fromisoformat(start), hours, o.step, truth)


def play(tool, file, groups, start, hours, step, truth):
    said, refused, label = {}, {}, {}
    at = [h for h in (step * (i + 1) for i in range(int(hours / step)))]
    for hour in at:
        until = (start + datetime.timedelta(hours=hour)).isoformat()
        v = judge(tool, file, groups, until)
        said[hour] = sides(v["pair"])
        label = {a["id"]: (a["label"], a.get("level_bytes")) for a in v["arm"]}
        for a in v["arm"]:
            if a.get("refused"):
                refused.setdefault(a["id"], hour)
    if not truth:
        known = [(l[1], n) for n, l in label.items() if l[1] and n not in refused]
        truth = [n for _, n in sorted(known)]
    order = {n: i for i, n in enumerate(truth)}
    print("right ranking:", " < ".join(truth))
    for low, high in zip(truth, truth[1:]):
        pair = frozenset((low, high))
        apart = [h for h in at if all(said[k].get(pair) == low for k in at if k >= h)]
        print(f"  {low} < {high}: told apart from hour {apart[0]:.0f} on" if apart else f"  {low} < {high}: not told apart")
    wrong = [
        (h, sorted(p), w)
        for h in at
        for p, w in said[h].items()
        if w and all(n in order for n in p) and w != min(p, key=order.get)
    ]
    print("wrong decisions on the way:", wrong or "none")
    print("refused by the audit:", ", ".join(f"{n} (from hour {h:.0f})" for n, h in sorted(refused.items())) or "none")
    for name, (word, level) in sorted(label.items(), key=lambda l: l[1][1] or 0):
        print(f"  {name:14} {word:12} {(level or 0) / 2**30:6.2f} GiB")


if __name__ == "__main__":
    main()
