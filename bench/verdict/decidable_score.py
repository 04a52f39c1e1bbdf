#!/usr/bin/env python3
"""score.py truth.csv full.jsonl [parts.jsonl] [--json OUT]   (standard library only)

right          label is in the accept set (insufficient is not, on the whole run)
grows-or-not   right side: growing said iff it grows; a label in the accept set counts as right side (log: plateauing); insufficient: wrong
false alarm    of the bounded series, said growing
missed         of those that grow, neither growing nor an accepted label said (insufficient and no answer count as missed)
coverage       slope_lo <= true end slope <= slope_hi, where the truth has a slope and the tool gave an interval
until          first of 0.125 0.25 0.5 0.75 1 from which on every label is right (insufficient is not right, but see below); never 2
wrong side     of the part calls: growing said though the part's truth does not accept it, or a bounded label where it accepts only growing"""

import argparse, csv, json, signal, sys
from collections import defaultdict

PARTS = (0.125, 0.25, 0.5, 0.75)
signal.signal(signal.SIGPIPE, signal.SIG_DFL)
BOUNDED = {"flat", "plateauing", "sawtooth", "stepped"}


def lines(path):
    out = {}
    for ln in open(path):
        ln = ln.strip()
        if not ln:
            continue
        try:
            o = json.loads(ln)
        except ValueError:
            print("not JSON:", ln[:80], file=sys.stderr)
            continue
        if isinstance(o, dict) and o.get("kind") == "series" and "id" in o:
            if o["id"] in out:
                print("twice:", o["id"], file=sys.stderr)
            out[str(o["id"])] = o
    return out


def num(x):
    return x if isinstance(x, (int, float)) and not isinstance(x, bool) else None


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("truth")
    ap.add_argument("full")
    ap.add_argument("parts", nargs="?")
    ap.add_argument("--json")
    a = ap.parse_args()
    T = list(csv.DictReader(open(a.truth)))
    full = lines(a.full)
    parts = {}
    for k, o in (lines(a.parts) if a.parts else {}).items():
        i, _, p = k.rpartition("@")
        try:
            parts[(i, round(float(p), 4))] = o.get("label")
        except ValueError:
            pass
    R, wrong, early = [], [], []
    for x in T:
        i, acc, g = x["id"], set(x["accept"].split("|")), x["grows"] == "1"
        o = full.get(i, {})
        lab = o.get("label", "(none)")
        q = dict(id=i, fam=x["family"], grows=g, right=lab in acc, insuf=lab in ("insufficient", "(none)"))
        q["side"] = q["right"] or (not q["insuf"] and (lab == "growing") == g)
        q["false"] = (lab == "growing") if not g else None
        q["missed"] = (lab != "growing" and lab not in acc) if g else None
        sl = x["slope_bytes_per_hour_end"]
        lo, hi = num(o.get("slope_lo")), num(o.get("slope_hi"))
        q["cover"] = q["coverg"] = q["width"] = q["serr"] = None
        if sl:
            s = float(sl)
            if lo is not None and hi is not None:
                q["cover"] = lo <= s <= hi
                q["width"] = (hi - lo) / abs(s)
                if lab == "growing":
                    q["coverg"] = q["cover"]
            b = num(o.get("slope_bytes_per_hour"))
            if b is not None and lab == "growing":
                q["serr"] = abs(b - s) / abs(s)
        pt = {float(s.split(":")[0]): set(s.split(":")[1].split("|")) for s in x["part_truth"].split(";")}
        ok, okf, nw, npw, nc, labs = [], [], 0, 0, 0, []
        for p in PARTS:
            l = parts.get((i, p), "(none)")
            labs.append(l)
            A = pt[p] - {"insufficient"}
            nc += l != "(none)"
            ok.append(l in A)
            okf.append(l in acc)
            if l not in ("(none)", "insufficient"):
                up = l == "growing" and "growing" not in A
                dn = l in BOUNDED and A == {"growing"}
                if up or dn:
                    nw += 1
                    early.append(
                        (x["family"], f"{i}@{p}", l, "|".join(sorted(A)), "too early alarm" if up else "called bounded")
                    )
                npw += l not in A

        def settle(v):
            u = 2
            for p, r in zip((1, 0.75, 0.5, 0.25, 0.125), [q["right"]] + v[::-1]):
                if not r:
                    break
                u = p
            return u

        if a.parts:
            q.update(until=settle(ok), untilf=settle(okf), nwrong=nw, npw=npw, ncalls=4, answered=nc)
        R.append(q)
        if not q["right"]:
            kind = (
                "FALSE ALARM" if q["false"] else "MISSED" if q["missed"] else "insufficient" if q["insuf"] else "label"
            )
            wrong.append(
                (x["family"], i, lab, x["accept"], kind, o.get("confidence"), " ".join(labs) if a.parts else "")
            )

    def mean(v):
        v = [float(z) for z in v if z is not None]
        return sum(v) / len(v) if v else None

    def med(v):
        v = sorted(z for z in v if z is not None)
        return v[len(v) // 2] if v else None

    def pc(v):
        return "    -" if v is None else f"{100 * v:5.1f}"

    def line(name, S):
        c = [pc(mean(q[k] for q in S)) for k in ("right", "side", "insuf", "false", "missed", "cover")]
        if a.parts:
            u = mean(q["until"] for q in S)
            c += [f"{u:5.2f}", pc(sum(q["nwrong"] for q in S) / sum(q["ncalls"] for q in S))]
        return f"{name:22s}{len(S):4d} " + "  ".join(c)

    fam = defaultdict(list)
    for q in R:
        fam[q["fam"]].append(q)
    print(
        f"{'percent (until: part)':22s}   n  right   side  insuf  false  missd  cover"
        + ("  until  wrong-early" if a.parts else "")
    )
    print(line("ALL", R))
    print(line(" all that grow", [q for q in R if q["grows"]] or R))
    print(line(" all bounded", [q for q in R if not q["grows"]] or R))
    for f in sorted(fam):
        print(line(f, fam[f]))
    S = dict(
        n=len(R),
        accuracy=mean(q["right"] for q in R),
        grows_or_not=mean(q["side"] for q in R),
        insufficient=mean(q["insuf"] for q in R),
        false_alarms=mean(q["false"] for q in R),
        missed=mean(q["missed"] for q in R),
        coverage=mean(q["cover"] for q in R),
        coverage_said_growing=mean(q["coverg"] for q in R),
        median_interval_width_over_slope=med([q["width"] for q in R]),
        median_slope_error=med([q["serr"] for q in R]),
        slopes_with_interval=sum(q["cover"] is not None for q in R),
        slopes_true=sum(bool(x["slope_bytes_per_hour_end"]) for x in T),
    )
    if a.parts:
        nc = sum(q["ncalls"] for q in R)
        S.update(
            until_right=mean(q["until"] for q in R),
            until_final_label=mean(q["untilf"] for q in R),
            until_of_growing=mean(q["until"] for q in R if q["grows"]),
            never=mean(q["until"] == 2 for q in R),
            wrong_side_early=sum(q["nwrong"] for q in R) / nc,
            part_label_wrong=sum(q["npw"] for q in R) / nc,
            part_answers_missing=nc - sum(q["answered"] for q in R),
        )
    print("\nsummary")
    for k, v in S.items():
        print(f"  {k:34s}", "-" if v is None else f"{v:.4g}")
    print(
        f"\nwrong on the whole run: {len(wrong)}   (family id said accepted kind confidence | the labels of the parts)"
    )
    for w in sorted(wrong):
        print("  %-20s %-6s said %-12s accepted %-28s %-12s conf=%s | %s" % w)
    if a.parts:
        print(f"\nwrong-side early calls: {len(early)}")
        for w in sorted(early):
            print("  %-20s %-12s said %-11s truth %-26s %s" % w)
    if a.json:
        json.dump(dict(summary=S, wrong=wrong, early=early), open(a.json, "w"), indent=1)


if __name__ == "__main__":
    main()
