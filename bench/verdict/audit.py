"""The exam of the audit: made experiments with one fault each, or with what only resembles one, through the command.

    python3 bench/verdict/audit.py --seed 1 --each 8            a table of found, missed and false, for each check
    python3 bench/verdict/audit.py --seed 1 --each 8 --wrong    each that was wrong

A fault is found when the check names the right arms and processes (and refuses where it must). A finding of any other
check is false, unless it follows from the fault; so is any finding on a harmless experiment. Of the arms that are not
refused, those are counted whose label is on the wrong side: growing, or bounded.
"""

import argparse
import collections
import json
import pathlib
import random
import subprocess
import tempfile

import experiments
import faults
import harmless

ROOT = pathlib.Path(__file__).resolve().parents[2]
BOUNDED = {"flat", "plateauing", "sawtooth", "stepped"}


def ask(tool, path, flags):
    command = [tool, "verdict", path, "--arms", "--json", *flags]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"{path}: exit {done.returncode}: {done.stderr}")
    return [json.loads(line) for line in done.stdout.splitlines()]


def matches(found, wanted):
    if found["check"] != wanted["check"] or (wanted["refuses"] and found["severity"] != "refuses"):
        return False
    named = {p.rsplit("/", 1)[-1] for p in found["processes"]}
    return wanted["arms"] <= set(found["arms"]) and wanted["processes"] <= named


def wrong_sides(made, lines):
    """Arms whose label is on the wrong side of what they were made to do, and how many had a label."""
    wrong, count = [], 0
    for arm in (line for line in lines if line["kind"] == "arm" and not line["refused"]):
        kind = made.labels.get(arm["id"])
        if kind is None or arm["label"] in ("insufficient", "variable"):
            continue
        count += 1
        if (kind == "leak") == (arm["label"] in BOUNDED):
            wrong.append(f"{arm['id']} ({kind}) is called {arm['label']}")
    return wrong, count


class Counts:
    def __init__(self):
        self.rates = collections.defaultdict(lambda: [0, 0, 0])
        self.false_on, self.labels, self.wrong_labels = collections.Counter(), 0, 0

    def count(self, name, made, wanted, lines):
        """Counts one experiment; what was wrong about it, in words."""
        found = [line for line in lines if line["kind"] == "audit"]
        is_harmless = isinstance(wanted, set)
        allowed = wanted if is_harmless else faults.FOLLOWS.get(name, set()) | {w["check"] for w in wanted}
        wrong = []
        for w in [] if is_harmless else wanted:
            is_seen = any(matches(f, w) for f in found)
            self.rates[w["check"]][0 if is_seen else 1] += 1
            wrong += [] if is_seen else [f"missed {w}"]
        for f in (f for f in found if f["check"] not in allowed):
            self.rates[f["check"]][2] += 1
            self.false_on[name] += 1
            wrong.append(f"false {f['check']}: {f['what']}")
        labels, count = wrong_sides(made, lines)
        self.labels, self.wrong_labels = self.labels + count, self.wrong_labels + len(labels)
        return wrong + labels

    def print(self):
        print(f"{'check':17} found missed false")
        for check, (seen, missed, false) in sorted(self.rates.items()):
            print(f"{check:17} {seen:5} {missed:6} {false:5}")
        for kind, count in self.false_on.most_common():
            print(f"false on {kind}: {count}")
        print(f"labels of arms that are not refused: {self.labels}, on the wrong side: {self.wrong_labels}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--each", type=int, default=8)
    parser.add_argument("--only", default="", help="kinds whose name contains this")
    parser.add_argument("--wrong", action="store_true")
    parser.add_argument("--keep", help="a folder for the files")
    parser.add_argument("--tool", default=str(ROOT / "target" / "release" / "highwater"))
    args = parser.parse_args()
    counts = Counts()
    with tempfile.TemporaryDirectory() as temp:
        folder = pathlib.Path(args.keep or temp)
        folder.mkdir(exist_ok=True)
        for kind in (k for k in faults.KINDS + harmless.KINDS if args.only in k.__name__):
            for at in range(args.each):
                rng = random.Random(f"{args.seed} {kind.__name__} {at}")
                made, wanted = experiments.make(rng, kind)
                path = str(folder / f"{kind.__name__}-{at}.csv")
                experiments.write(made, path, rng)
                lines = ask(args.tool, path, made.flags + experiments.write_groups(made, path))
                wrong = counts.count(kind.__name__, made, wanted, lines)
                for line in wrong if args.wrong else []:
                    print(f"{kind.__name__}-{at}: {line}")
    counts.print()


if __name__ == "__main__":
    main()
