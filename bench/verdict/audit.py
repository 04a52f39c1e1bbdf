"""The exam of the audit: made experiments with one fault each, and with what only looks like one, through the command.

    python3 bench/verdict/audit.py --seed 1 --each 8            a table of found, missed and false, for each check
    python3 bench/verdict/audit.py --seed 1 --each 8 --wrong    each that was wrong

A fault is found when the check speaks of the right arms and processes (and refuses where it must). A finding of any
other check is false, unless it follows from the fault; so is any finding on a harmless experiment. Of the verdicts
that survive (arms that are not refused) it is counted how many are on the wrong side: growing, or bounded.
"""

import argparse
import collections
import json
import pathlib
import random
import subprocess
import tempfile

import audit_fresh
import audit_made

ROOT = pathlib.Path(__file__).resolve().parents[2]
# What a fault brings along, beside its own finding.
FOLLOWS = {
    "restart_some": {"uptimes"},
    "restart_started": {"uptimes"},
    "restart_warm": {"uptimes"},
    "move": {"uptimes"},
    "late_some": {"uptimes"},
    "late_arm": set(),
    "unit_some": {"load"},
    "control_of_one": set(),
    "no_arm": {"one_process"},
    "hang_cpu": {"load"},
    "unit_midway": {"restarted"},
} | audit_fresh.FOLLOWS
BOUNDED = {"flat", "plateauing", "sawtooth", "stepped"}


def ask(tool, path, flags):
    done = subprocess.run([tool, "verdict", path, "--arms", "--json", *flags], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"{path}: exit {done.returncode}: {done.stderr}")
    return [json.loads(line) for line in done.stdout.splitlines()]


def matches(found, wanted):
    if found["check"] != wanted["check"] or (wanted["refuses"] and found["severity"] != "refuses"):
        return False
    said = {p.rsplit("/", 1)[-1] for p in found["processes"]}
    return wanted["arms"] <= set(found["arms"]) and wanted["processes"] <= said


def side_wrong(made, lines):
    """Arms with a verdict on the wrong side of what they were made to do, and how many had one."""
    wrong, judged = [], 0
    for arm in (line for line in lines if line["kind"] == "arm" and not line["refused"]):
        kind = made.labels.get(arm["id"])
        if kind is None or arm["label"] in ("insufficient", "variable"):
            continue
        judged += 1
        grows = kind == "leak"
        if grows != (arm["label"] not in BOUNDED):
            wrong.append(f"{arm['id']} ({kind}) is called {arm['label']}")
    return wrong, judged


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--each", type=int, default=8)
    parser.add_argument("--set", choices=["made", "fresh"], default="made")
    parser.add_argument("--only", default="", help="kinds whose name contains this")
    parser.add_argument("--wrong", action="store_true")
    parser.add_argument("--keep", help="a folder for the files")
    parser.add_argument("--tool", default=str(ROOT / "target" / "release" / "highwater"))
    args = parser.parse_args()
    rates = collections.defaultdict(lambda: [0, 0, 0])
    twins, sides, judged, wrong_arms = collections.Counter(), 0, 0, []
    with tempfile.TemporaryDirectory() as temp:
        folder = pathlib.Path(args.keep or temp)
        folder.mkdir(exist_ok=True)
        kinds = {"made": audit_made, "fresh": audit_fresh}[args.set]
        for kind in kinds.FAULTS + kinds.TWINS:
            if args.only not in kind.__name__:
                continue
            for at in range(args.each):
                rng = random.Random(f"{args.seed} {kind.__name__} {at}")
                made, said = audit_made.make(rng, kind)
                path = str(folder / f"{kind.__name__}-{at}.csv")
                audit_made.write(made, path, rng)
                lines = ask(args.tool, path, made.flags + audit_made.write_groups(made, path))
                found = [line for line in lines if line["kind"] == "audit"]
                allowed = said if isinstance(said, set) else FOLLOWS.get(kind.__name__, set()) | {w["check"] for w in said}
                faults = []
                if not isinstance(said, set):
                    for wanted in said:
                        seen = any(matches(f, wanted) for f in found)
                        rates[wanted["check"]][0 if seen else 1] += 1
                        faults += [] if seen else [f"missed {wanted}"]
                for f in found:
                    if f["check"] not in allowed:
                        rates[f["check"]][2] += 1
                        twins[kind.__name__] += 1
                        faults.append(f"false {f['check']}: {f['what']}")
                wrong, count = side_wrong(made, lines)
                sides, judged = sides + len(wrong), judged + count
                wrong_arms += [f"{kind.__name__}-{at}: {w}" for w in wrong]
                if args.wrong:
                    for fault in faults + wrong:
                        print(f"{kind.__name__}-{at}: {fault}")
    print(f"{'check':15} found missed false")
    for check, (seen, missed, false) in sorted(rates.items()):
        print(f"{check:15} {seen:5} {missed:6} {false:5}")
    for kind, count in twins.most_common():
        print(f"false on {kind}: {count}")
    print(f"verdicts that survive: {judged}, on the wrong side: {sides}")


if __name__ == "__main__":
    main()
