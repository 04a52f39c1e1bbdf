#!/usr/bin/env python3
"""run.py TOOL [names or prefixes...] [--set ../outside2] [--duration 15] [--rootless] [--out DIR] [--repeat N] [--dry]
--dry runs no tool: it only waits, then prints the measured truth of each case. Services and truths were written by
somebody who had read the meanings of the causes and nothing else; `build` in the set's folder builds them. Columns that a set
may have besides: rootless (no: skipped with --rootless), rows (how many rows of accepted causes are fine, else 1)."""

import argparse, collections, csv, json, os, re, shlex, shutil, signal, socket, subprocess, sys, time

HERE = os.path.dirname(os.path.abspath(__file__))
ap = argparse.ArgumentParser()
ap.add_argument("tool")
ap.add_argument("names", nargs="*")
ap.add_argument("--set", default=".", help="folder of the cases, from this one")
ap.add_argument("--duration", type=float, default=15)
ap.add_argument("--rootless", action="store_true")
ap.add_argument("--out", default="")
ap.add_argument("--repeat", type=int, default=1)
ap.add_argument("--dry", action="store_true")
A = ap.parse_intermixed_args()
SET = os.path.normpath(os.path.join(HERE, A.set))
# Where `build` puts the services.
H = os.path.abspath(os.path.join(HERE, "../../../target", "stalls-" + os.path.basename(SET)))
out = A.out or f"{H}/out-{time.strftime('%H%M%S')}"
os.makedirs(out, exist_ok=True)
data = f"{H}/data" + ("-nobody" if A.rootless else "")
os.makedirs(data, exist_ok=True)
os.chmod(data, 0o777)
A.tool = os.path.abspath(A.tool)
out = os.path.abspath(out)
NB = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"] if A.rootless else []
tool = A.tool
if A.rootless and not A.dry:
    os.makedirs(f"{H}/rootless", exist_ok=True)
    os.chmod(f"{H}/rootless", 0o755)
    tool = f"{H}/rootless/" + os.path.basename(A.tool)
    tmp = tool + ".new"
    shutil.copyfile(A.tool, tmp)
    os.chmod(tmp, 0o755)
    os.replace(tmp, tool)
DUR = f"{A.duration:g}"
portno = 21000 + (os.getpid() % 50) * 200


def port():
    global portno
    while True:
        portno += 2
        try:
            for p in (portno, portno + 1):
                s = socket.socket()
                s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                s.bind(("127.0.0.1", p))
                s.close()
            return portno
        except OSError:
            continue


def objects(text):
    d, i, r = json.JSONDecoder(), 0, []
    while True:
        i = text.find("{", i)
        if i < 0:
            return r
        try:
            o, i = d.raw_decode(text, i)
            r.append(o)
        except ValueError:
            i += 1


def cg(name, pid, quota):
    q, p = quota.split("/")
    if os.path.exists("/sys/fs/cgroup/cpu/cpu.cfs_quota_us"):
        d = f"/sys/fs/cgroup/cpu/{name}"
        os.makedirs(d, exist_ok=True)
        open(d + "/cpu.cfs_period_us", "w").write(p)
        open(d + "/cpu.cfs_quota_us", "w").write(q)
    else:
        open("/sys/fs/cgroup/cgroup.subtree_control", "w").write("+cpu")
        d = f"/sys/fs/cgroup/{name}"
        os.makedirs(d, exist_ok=True)
        open(d + "/cpu.max", "w").write(f"{q} {p}")
    open(d + "/cgroup.procs", "w").write(str(pid))
    return d


def num(x):
    return x if isinstance(x, (int, float)) else 0


def one(c, rep):
    name = c["name"]
    svc = name.split("-")[0]
    dd = f"{data}/{svc}"
    os.makedirs(dd, exist_ok=True)
    os.chmod(dd, 0o777)
    tr = f"{dd}/truth.json"
    if os.path.exists(tr):
        os.unlink(tr)
    cmd = (
        NB
        + shlex.split(c["start_command"].replace("{bin}", H + "/bin"))
        + ["--port", str(port()), "--dir", dd, "--truth", tr, "--secs", "120"]
    )
    log = open(f"{out}/{name}.{rep}.svc", "w")
    p = subprocess.Popen(cmd, stdout=log, stderr=log, stdin=subprocess.DEVNULL, cwd="/")
    hogs, cgd, txt, err, rc = [], None, "", "", None
    try:
        time.sleep(1.0)
        if c["quota"]:
            try:
                cgd = cg(f"{os.path.basename(SET)}-{name}-{os.getpid()}", p.pid, c["quota"])
            except OSError as e:
                return dict(name=name, skip=f"quota not possible: {e}")
        if c["hogs(0/1)"] == "1":
            hogs = [subprocess.Popen([H + "/bin/exload", "hog", "120"]) for _ in range(2 * (os.cpu_count() or 2))]
        time.sleep(2.0)
        if p.poll() is not None:
            return dict(name=name, skip="service did not start: " + open(log.name).read()[-200:])
        t0 = time.monotonic()
        if A.dry:
            time.sleep(A.duration)
        else:
            try:
                r = subprocess.run(
                    NB + [tool, "stalls", "--pid", str(p.pid), "--duration", DUR, "--json"],
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    stdin=subprocess.DEVNULL,
                    text=True,
                    errors="replace",
                    timeout=A.duration + 60,
                    cwd="/",
                )
                txt, err, rc = r.stdout, r.stderr, r.returncode
            except subprocess.TimeoutExpired as e:
                err = "TOOL TIMEOUT"
                txt = (e.stdout or b"").decode(errors="replace")
        t1 = time.monotonic()
        died = p.poll() is not None
    finally:
        for h in hogs:
            h.kill()
            h.wait()
        p.terminate()
        try:
            p.wait(5)
        except subprocess.TimeoutExpired:
            p.kill()
            p.wait()
        if cgd:
            for _ in range(20):
                try:
                    os.rmdir(cgd)
                    break
                except OSError:
                    time.sleep(0.1)
    for _ in range(30):
        time.sleep(0.1)
        try:
            T = json.load(open(tr))
            break
        except Exception:
            T = None
    open(f"{out}/{name}.{rep}.json", "w").write(txt)
    open(f"{out}/{name}.{rep}.err", "w").write(err)
    if T:
        shutil.copy(tr, f"{out}/{name}.{rep}.truth")
    # the part of the truth inside the tool's window
    sl = sorted(s for s in (T or {}).get("slow", []) if s[0] + s[1] / 1e3 > t0 and s[0] < t1)
    ep, last = 0, -9
    for s in sl:
        if s[0] > last + 0.1:
            ep += 1
        last = max(last, s[0] + s[1] / 1e3)
    truth = dict(
        n=(T or {}).get("n"),
        p50=(T or {}).get("p50_ms"),
        p99=(T or {}).get("p99_ms"),
        max=max([s[1] for s in sl], default=0),
        slow=len(sl),
        ep=ep,
        err=(T or {}).get("errors"),
    )
    res = dict(name=name, truth=truth, rc=rc, died=died, rows=[])
    if A.dry:
        return res
    objs = [o for o in objects(txt) if isinstance(o, dict) and "findings" in o]
    if not objs:
        res["skip"] = f"NO SUMMARY rc={rc} " + err.strip()[-160:]
        res["bad"] = True
        return res
    F = objs[-1]["findings"] or []
    F = sorted(F, key=lambda f: -num(f.get("total_ns")))
    acc = [x for x in c["accept_causes"].split("|") if x]
    tol = [x for x in c["accept_fixed"].split("|") if x]
    fns = [x for x in c["accept_functions"].split("|") if x]
    m = re.search(r"thread=([^;]+)", c["notes"])
    want_t = m.group(1).strip() if m else ""
    res["rows"] = F
    ok_rows = []
    extra = 0
    allow = int(c.get("rows") or (2 if "cpu-starvation" in acc else 1))
    for f in F:
        if f.get("cause") in acc:
            ok_rows.append(f)
        elif f.get("cause") not in tol:
            extra += 1
    extra += max(0, len(ok_rows) - allow)
    res["extra"] = extra
    res["fixed"] = not acc

    def where(f):
        k = f.get("culprit") or {}
        k = k if isinstance(k, dict) else {"function": k}
        for label, v in (
            ("function", k.get("function")),
            ("stack", k.get("stack")),
            ("doing", k.get("doing")),
            ("chain", f.get("chain")),
            ("rest", f),
        ):
            if any(x in (v if isinstance(v, str) else json.dumps(v or "")) for x in fns):
                return label
        return ""

    if acc:
        rest = [f for f in F if f.get("cause") not in tol or f.get("cause") in acc]
        res["right"] = bool(ok_rows)
        res["first"] = bool(rest) and rest[0].get("cause") in acc
        res["top"] = bool(F) and F[0].get("cause") in acc
        res["fn"] = next((w for w in map(where, ok_rows) if w), "MISSED") if fns else "-"
        if want_t:
            res["thread"] = "yes" if any(want_t in json.dumps(f.get("culprit") or "") for f in ok_rows) else "NO"
    else:
        res["right"] = extra == 0
        res["fn"] = "-"
    return res


cases = list(csv.DictReader(open(f"{SET}/cases.csv")))
if A.names:
    cases = [
        c
        for c in cases
        if any(c["name"] == n or (n not in {x["name"] for x in cases} and c["name"].startswith(n)) for n in A.names)
    ]
if A.rootless:
    cases = [c for c in cases if c.get("rootless") != "no"]
allr = []
for c in cases:
    for rep in range(A.repeat):
        r = one(c, rep)
        allr.append(r)
        t = r.get("truth") or {}
        tx = (
            f"n={t.get('n')} p50={t.get('p50')} p99={t.get('p99')} | window: slow={t.get('slow')} ep={t.get('ep')} max={t.get('max')}ms err={t.get('err')}"
            if t
            else ""
        )
        if A.dry or "skip" in r:
            print(f"{r['name']:24} {r.get('skip', '')} {tx}{' DIED' if r.get('died') else ''}", flush=True)
            continue
        v = (
            ("clean" if r["right"] else "FALSE")
            if r["fixed"]
            else ("right" if r["right"] else "MISSED") + ("" if r["first"] or not r["right"] else "(not first)")
        )
        print(
            f"{r['name']:24} {v:17} fn={r['fn']:9} thr={r.get('thread', '-'):4} extra={r['extra']} rc={r['rc']}{' SERVICE DIED' if r['died'] else ''}  truth[{tx}]",
            flush=True,
        )
        for f in r["rows"]:
            k = f.get("culprit") or {}
            k = k if isinstance(k, dict) else {"function": k}
            print(
                f"      {f.get('cause')} x{f.get('count')} thr={f.get('threads') if not isinstance(f.get('threads'), list) else len(f['threads'])} longest={num(f.get('longest_ns')) / 1e6:.0f}ms total={num(f.get('total_ns')) / 1e6:.0f}ms period={num(f.get('period_ns')) / 1e9:.2f}s open={f.get('open')} by {k.get('thread')}/{k.get('function')} doing {json.dumps(k.get('doing'))[:90]} chain={json.dumps(f.get('chain'))[:120]}{' inferred' if f.get('inferred') else ''}",
                flush=True,
            )
json.dump(allr, open(f"{out}/results.json", "w"), indent=1)
if not A.dry:
    J = [r for r in allr if "skip" not in r]
    fa = [r for r in J if not r["fixed"]]
    fx = [r for r in J if r["fixed"]]
    fn = [r for r in fa if r["fn"] != "-"]
    th = [r for r in fa if "thread" in r]
    print(
        f"\nTOTAL fault cases right {sum(r['right'] for r in fa)}/{len(fa)} (and first {sum(r['right'] and r['first'] for r in fa)}), with no extra row {sum(r['right'] and r['extra'] == 0 for r in fa)}; function named {sum(r['fn'] != 'MISSED' for r in fn)}/{len(fn)} (by the function field {sum(r['fn'] == 'function' for r in fn)}); thread {sum(r['thread'] == 'yes' for r in th)}/{len(th)}; fixed clean {sum(r['right'] for r in fx)}/{len(fx)}; extra rows {sum(r['extra'] for r in J)}; skipped/bad {len(allr) - len(J)}; out {out}"
    )
