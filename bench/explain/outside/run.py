#!/usr/bin/env python3
"""run.py TOOL [names...] [--set ../outside2] [--parallel N] [--out DIR] [--show]
runs each case of cases.csv as: env ENV TOOL explain --duration WATCH --json -- COMMAND  (cwd = target/explain-SET). Programs and truths were
written by somebody who had read the meanings of the causes and nothing else; `build` in the set's folder builds them."""

import csv, json, os, subprocess, sys, threading, queue, time, argparse, glob, signal, shlex

HERE = os.path.dirname(os.path.abspath(__file__))
ap = argparse.ArgumentParser()
ap.add_argument("tool")
ap.add_argument("names", nargs="*")
ap.add_argument("--parallel", type=int, default=1)
ap.add_argument("--set", default=".", help="folder of the cases, from this one")
ap.add_argument("--out")
ap.add_argument("--reread", action="store_true", help="only judge the outputs saved before")
a = ap.parse_args()
SET = os.path.normpath(os.path.join(HERE, a.set))
# Where `build` puts the programs, and where they run.
H = os.path.abspath(os.path.join(HERE, "../../../target", "explain-" + os.path.basename(SET)))
a.out = a.out or os.path.join(H, "out")
a.tool = os.path.abspath(a.tool)
a.out = os.path.abspath(a.out)
os.makedirs(a.out, exist_ok=True)
os.makedirs(os.path.join(H, "scratch"), exist_ok=True)
cases = [c for c in csv.DictReader(open(os.path.join(SET, "cases.csv"))) if not a.names or c["name"] in a.names]
for n in a.names:
    if n not in {c["name"] for c in cases}:
        print("unknown case", n, file=sys.stderr)


def last_json(text):
    found = None
    dec = json.JSONDecoder()
    i = 0
    while True:
        i = text.find("{", i)
        if i < 0:
            return found
        try:
            o, e = dec.raw_decode(text, i)
        except ValueError:
            i += 1
            continue
        if isinstance(o, dict) and o.get("schema") in ("highwater.explain/1", "highwater.explain/2"):
            found = o
        i = e


def fname(f):
    return f if isinstance(f, str) else (f.get("function") or f.get("name") or "") if isinstance(f, dict) else ""


def named(f):
    n = fname(f)
    return n and not n.startswith("0x") and n not in ("?", "??") and "+0x" not in n[:3]


def judge(c, txt, rc, secs):
    o = last_json(txt)
    acc = [x for x in c["accept_causes"].split("|") if x]
    fn = [x for x in c["accept_functions"].split("|") if x]
    r = dict(case=c["name"], cause="-", grade="WRONG", top="", named="", sentence="", secs=secs, conf="")
    if not o:
        r["sentence"] = f"no JSON of schema highwater.explain (exit {rc})"
        r["named"] = "no" if fn else "-"
        return r
    v = o.get("verdict") or {}
    r["cause"] = str(v.get("cause"))
    r["conf"] = str(v.get("confidence", ""))
    r["sentence"] = str(v.get("sentence", ""))
    r["grade"] = (
        "right"
        if r["cause"] in acc
        else "honest"
        if r["cause"] in ("blind", "filling") and "leak" in acc + ["leak" if c["name"] in ("c_static_queue",) else ""]
        else "WRONG"
    )
    sites = o.get("sites") or []
    fr = [fname(f) for f in (sites[0].get("frames") or []) if named(f)] if sites else []
    r["top"] = " < ".join(fr[:3])
    if not fn:
        r["named"] = "-"
    elif any(x in f for x in fn for f in fr[:3]):
        r["named"] = "yes"
    elif any(x in f for x in fn for f in fr):
        r["named"] = "deeper"
    elif any(x in fname(f) for x in fn for s in sites[1:] for f in (s.get("frames") or [])):
        r["named"] = "othersite"
    elif r["cause"] == "blind":
        r["named"] = "blind"
    else:
        r["named"] = "no"
    return r


def stop_group(p):  # only the session this script started
    for s in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(p.pid, s)
        except ProcessLookupError:
            return
        time.sleep(0.5)


def run(c):
    b = os.path.join(a.out, c["name"])
    rc = None
    secs = 0
    if not a.reread:
        env = dict(os.environ)
        env.update(x.split("=", 1) for x in c["env"].split())
        t = time.time()
        cmd = (
            ["env"]
            + c["env"].split()
            + [a.tool, "explain", "--duration", c["watch_s"] + "s", "--json", "--"]
            + shlex.split(c["command"].replace("src/", SET + "/"))
        )
        with open(b + ".stdout", "w") as so, open(b + ".stderr", "w") as se:
            p = subprocess.Popen(cmd, cwd=H, stdout=so, stderr=se, stdin=subprocess.DEVNULL, start_new_session=True)
            try:
                rc = p.wait(timeout=int(c["watch_s"]) + 60)
            except subprocess.TimeoutExpired:
                rc = "timeout"
            stop_group(p)
            if rc == "timeout":
                p.wait()
        secs = time.time() - t
    try:
        txt = open(b + ".stdout", errors="replace").read()
    except OSError:
        txt = ""
    return judge(c, txt, rc, secs)


q = queue.Queue()
res = {}
for c in cases:
    q.put(c)


def work():
    while True:
        try:
            c = q.get_nowait()
        except queue.Empty:
            return
        try:
            r = run(c)
        except Exception as e:
            r = dict(
                case=c["name"], cause="-", grade="WRONG", top="", named="no", sentence=f"run.py: {e!r}", secs=0, conf=""
            )
        res[c["name"]] = r
        if not a.reread:
            print(
                f"  .. {r['case']}: {r['cause']} {r['grade']} named={r['named']} {r['secs']:.0f}s",
                file=sys.stderr,
                flush=True,
            )


ts = [threading.Thread(target=work) for _ in range(max(1, a.parallel))]
[t.start() for t in ts]
[t.join() for t in ts]
for f in glob.glob(os.path.join(H, "scratch", "index-*.dat")):
    try:
        if not os.path.exists("/proc/" + f.rsplit("-", 1)[1][:-4]):
            os.unlink(f)
    except OSError:
        pass
print(f"{'case':21} {'truth':16} {'said':10} {'grade':7} {'named':9} {'s':>4}  top frames | sentence")
for c in cases:
    r = res[c["name"]]
    print(
        f"{r['case']:21} {c['accept_causes']:16} {r['cause']:10} {r['grade']:7} {r['named']:9} {r['secs']:4.0f}  {r['top'][:90]} | {r['sentence'][:220]}"
    )
R = list(res.values())
k = lambda key, v: sum(r[key] == v for r in R)
print(
    f"\ncauses: {k('grade', 'right')} right, {k('grade', 'honest')} honest, {k('grade', 'WRONG')} WRONG of {len(R)};  functions asked {sum(r['named'] != '-' for r in R)}: {k('named', 'yes')} named, {k('named', 'deeper')} only deeper than 3 frames, {k('named', 'othersite')} only at another site, {k('named', 'blind')} blind, {k('named', 'no')} not named"
)
json.dump(R, open(os.path.join(a.out, "summary.json"), "w"), indent=1)
sys.exit(0 if k("grade", "WRONG") == 0 else 1)
