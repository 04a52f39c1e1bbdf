"""Plays an experiment of many processes hour by hour, as its operator would have seen it: from when on each pair of
neighbours in the final ranking is distinguished, what is decided wrongly on the way, and what the audit refuses.

    python3 bench/verdict/replay.py                                  a made experiment of 200 processes
    python3 bench/verdict/replay.py FILE [--groups FILE[@TIME]] ...  a real one (what `highwater verdict` reads)

The made one has the shape of a published experiment: one host, 200 relays, five arms of 20, 80, 60, 20 and 20; three
arms run for three days before the last two are founded by processes that are restarted into them; nine processes leave
one arm for the others on the way (that arm is contaminated); two arms are restarted in the middle; one arm grows; all
share one load. Hours count from the start of the last arms.
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

TOOL = pathlib.Path(__file__).resolve().parents[2] / "target" / "release" / "highwater"
BEFORE_H, AFTER_H = 72, 144
EPOCH = datetime.datetime(2026, 1, 5)
# Arm: processes, level at which it ends (GiB), hours to two thirds of it, growth per hour after that (GiB),
# spread between processes, hours of its restarts.
ARMS = {
    "old-malloc": (20, 4.0, 30.0, 0.0, 0.35, []),
    "je": (80, 2.64, 22.0, 0.0, 0.12, [58]),
    "mi-3": (20, 2.6, 10.0, 0.040, 0.15, []),
    "mi-2a": (60, 1.28, 14.0, 0.0, 0.12, [61]),
    "mi-2b": (20, 1.72, 18.0, 0.0, 0.15, []),
}
YOUNG = {"mi-2a", "mi-2b"}
TRUTH = ["mi-2a", "mi-2b", "je", "mi-3"]


def relay(rng, births):
    """RSS over the hours of one relay that starts at each of `births` (hour, arm)."""
    own, drift = {}, 0.0
    for hour in range(-BEFORE_H, AFTER_H + 1):
        now = [b for b in births if b[0] <= hour]
        if not now:
            continue
        born, name = now[-1]
        _, level, tau, growth, spread, _ = ARMS[name]
        own.setdefault(name, math.exp(rng.gauss(0.0, spread)))
        age = hour - born
        drift = 0.9 * drift + math.sqrt(1 - 0.81) * rng.gauss(0.0, 1.0)
        load = 1.0 + 0.03 * math.sin(2 * math.pi * hour / 24.0)
        gib = own[name] * (0.25 + (level - 0.25) * (1 - math.exp(-age / tau)) + growth * age)
        yield hour, name, born, gib * load * (1.0 + 0.015 * drift)


def make(path, seed):
    """Writes the made experiment in the form that relay operators publish (RSS, high-water mark, group)."""
    rng, rows = random.Random(seed), []
    for a, (arm, (count, *_, restarts)) in enumerate(ARMS.items()):
        for p in range(count):
            births = [(0 if arm in YOUNG else -BEFORE_H, arm)] + [(h + rng.random(), arm) for h in restarts]
            if arm in YOUNG:
                births.insert(0, (-BEFORE_H, "je"))
            if arm == "old-malloc" and p < 9:
                births.append((40 + p, rng.choice(["je", "mi-2a"])))
            high, last = 0.0, None
            for hour, name, born, gib in relay(rng, births):
                high = gib if born != last else max(high, gib)
                last = born
                when = EPOCH + datetime.timedelta(hours=hour, seconds=7 * a)
                kib = [int(of * 1048576) for of in (gib, high)]
                rows.append((hour, [when.isoformat(), "relay", f"{arm}-{p:02}", name, *kib]))
    with path.open("w", newline="") as file:
        out = csv.writer(file)
        out.writerow(["timestamp", "type", "nickname", "group", "rss_kb", "hwm_kb"])
        out.writerows(row for _, row in sorted(rows, key=lambda r: r[0]))


def ask(o, file, until):
    """The audit, the arms and the pairs of the run up to an instant."""
    command = [o.tool, "verdict", file, "--arms", "--all-pairs", "--json", "--until", until]
    command += [part for g in o.groups for part in ("--groups", g)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode not in (0, 1):
        sys.exit(f"{' '.join(map(str, command))}\n{done.stderr}")
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    return {kind: [line for line in lines if line["kind"] == kind] for kind in ("arm", "pair")}


def lower_of(p):
    """The lower arm of a pair; None while they are not distinguished."""
    lo, hi = p.get("lo"), p.get("hi")
    if lo is None or not p.get("decided", lo > 1 or hi < 1):
        return None
    return p["a"] if hi < 1 else p["b"] if lo > 1 else None


def play(o, file, start, hours, truth):
    said, refused, label = {}, {}, {}
    at = [o.step * (i + 1) for i in range(int(hours / o.step))]
    for hour in at:
        v = ask(o, file, (start + datetime.timedelta(hours=hour)).isoformat())
        said[hour] = {frozenset((p["a"], p["b"])): lower_of(p) for p in v["pair"]}
        label = {a["id"]: (a["label"], a.get("level_bytes")) for a in v["arm"]}
        for a in (a for a in v["arm"] if a.get("refused")):
            refused.setdefault(a["id"], hour)
    known = sorted((level, n) for n, (_, level) in label.items() if level and n not in refused)
    truth = truth or [n for _, n in known]
    order = {n: i for i, n in enumerate(truth)}
    print("right ranking:", " < ".join(truth))
    for low, high in zip(truth, truth[1:]):
        pair = frozenset((low, high))
        apart = [h for h in at if all(said[k].get(pair) == low for k in at if k >= h)]
        print(f"  {low} < {high}:", f"distinguished from hour {apart[0]:.0f} on" if apart else "not distinguished")
    wrong = [
        (h, sorted(p), low)
        for h in at
        for p, low in said[h].items()
        if low and all(n in order for n in p) and low != min(p, key=order.get)
    ]
    print("wrong decisions on the way:", wrong or "none")
    print("refused by the audit:", ", ".join(f"{n} (from hour {h:.0f})" for n, h in sorted(refused.items())) or "none")
    for name, (word, level) in sorted(label.items(), key=lambda a: a[1][1] or 0):
        print(f"  {name:14} {word:12} {(level or 0) / 2**30:6.2f} GiB")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("file", nargs="?")
    parser.add_argument("--groups", action="append", default=[])
    parser.add_argument("--truth", help="the right ranking, low to high: A,B,C (default: that at the end)")
    parser.add_argument("--start", help="instant from which hours count (ISO 8601)")
    parser.add_argument("--hours", type=float, help="length in hours from there")
    parser.add_argument("--step", type=float, default=12.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--tool", type=pathlib.Path, default=TOOL, help="the highwater to ask")
    o = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        file, start, hours, truth = o.file, o.start, o.hours, o.truth and o.truth.split(",")
        if not file:
            file = pathlib.Path(folder) / "relays.csv"
            make(file, o.seed)
            start, hours, truth = EPOCH.isoformat(), hours or AFTER_H, truth or TRUTH
        if not start or not hours:
            sys.exit("--start and --hours say which part of a real run is played")
        play(o, file, datetime.datetime.fromisoformat(start), hours, truth)


if __name__ == "__main__":
    main()
