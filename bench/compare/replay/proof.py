#!/usr/bin/env python3
"""Predictions of `highwater replay --experiment`, checked by `highwater run` on programs that no interval was
chosen on.

    bench/compare/replay/proof.py --highwater target/release/highwater --work FOLDER [--only NAME,NAME]

Each program is one that is installed, on data made from a fixed seed, and comes to its end by itself. It is recorded on
the allocator that it comes with, replayed on every installed allocator and usual settings, and the experiment that the
replay writes is run. Prints a table of every arm as Markdown; FOLDER/ledger holds the same, and
`highwater log --ledger FOLDER/ledger` the score.
"""

import json
import os
import pathlib
import random
import shutil
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
from harness import MIB, ROOT, parser, print_head, print_row  # noqa: E402

SEED = 20261128

PERL = """
srand(7); my %h; my $n = 0;
for my $round (1..9) {
    for (1..60000) { my $k = int(rand(400000)); $h{$k} = [map { "v" . $_ x int(rand(9)) } 1..(1+int(rand(6)))]; }
    delete $h{int(rand(400000))} for 1..60000;
    my @sorted = sort { scalar(@{$h{$a}}) <=> scalar(@{$h{$b}}) || $a <=> $b } keys %h; $n += @sorted;
    %h = () if $round % 4 == 0;
}
print "$n\\n";
"""
TCL = """
expr {srand(7)}
for {set round 0} {$round < 12} {incr round} {
    for {set i 0} {$i < 60000} {incr i} {
        set k [expr {int(rand()*150000)}]
        dict set d $k [lrepeat [expr {1+int(rand()*12)}] "value $k"]
    }
    foreach k [lrange [dict keys $d] 0 30000] { dict unset d $k }
    set joined [join [dict values $d] ,]; unset joined
}
"""
PYTHON = """
import random, xml.etree.ElementTree as E
r = random.Random(7)
kept = []
for n in range(150):
    root = E.Element("r")
    for i in range(r.randrange(500, 9000)):
        e = E.SubElement(root, "item", id=str(i), name="n" * r.randrange(40)); e.text = "t" * r.randrange(300)
    kept.append(E.fromstring(E.tostring(root)))
    if len(kept) > 7: kept.pop(r.randrange(len(kept)))
"""
NODE = """
const zlib = require("zlib"); let s = 7;
const rand = (n) => (s = (s * 1103515245 + 12345) % 2147483648) % n;
const kept = [];
for (let i = 0; i < 9000; i++) {
    const b = Buffer.alloc(20000 + rand(180000), i % 251);
    for (let k = 0; k < 400; k++) b[rand(b.length)] = rand(256);
    kept.push(zlib.deflateSync(b), b); while (kept.length > 160) kept.splice(rand(kept.length), 1);
}
"""
SQL = """
PRAGMA cache_size = -60000; CREATE TABLE t(id INTEGER PRIMARY KEY, k INT, v TEXT); CREATE INDEX ik ON t(k);
{rounds}
"""
ROUND = """
WITH RECURSIVE c(x) AS (SELECT {n}00000 UNION ALL SELECT x+1 FROM c WHERE x < {n}79999)
INSERT OR REPLACE INTO t SELECT x, (x*7919) % 50021, hex(zeroblob(10 + (x*31) % 120)) FROM c;
CREATE TEMP TABLE g AS SELECT k, count(*) n, group_concat(v) s FROM t GROUP BY k % 900; DROP TABLE g;
DELETE FROM t WHERE (k % 3) = {m};
"""


def json_lines(path, count):
    chance = random.Random(SEED)
    with path.open("w") as out:
        for number in range(count):
            tags = ["t%d" % chance.randrange(500) for _ in range(chance.randrange(8))]
            out.write(json.dumps({"id": number, "group": chance.randrange(900), "tags": tags,
                                  "text": "x" * chance.randrange(200)}) + "\n")


def text_lines(path, count):
    chance = random.Random(SEED)
    with path.open("w") as out:
        for number in range(count):
            out.write("%d %s\n" % (number, " ".join("word%d" % chance.randrange(3000) for _ in range(9))))


def programs(work, highwater):
    """Name, command, environment."""
    lines, text, sql = work / "lines.json", work / "text.txt", work / "t.sql"
    json_lines(lines, 260_000)
    text_lines(text, 14_000)
    sql.write_text(SQL.format(rounds="".join(ROUND.format(n=n, m=n % 3) for n in range(1, 9))))
    script = work / "edit.vim"
    script.write_text("set nomore undolevels=20\nfor i in range(4)\n%s/word\\(\\d\\)/\\1word/g\n"
                      "%s/\\(\\d\\)word/word\\1/g\ng/99/m0\nundo\nendfor\nqa!\n")
    objects = work / "objects"
    listed = subprocess.run(["git", "-C", str(ROOT), "rev-list", "--objects", "--all", "--max-count=500"],
                            capture_output=True, text=True, check=True).stdout
    objects.write_text(listed)
    shell = lambda words: ["sh", "-c", "exec " + words]
    return [
        ("perl", ["perl", "-e", PERL], {}),
        ("tclsh", ["sh", "-c", 'exec tclsh "$0"', str(write(work / "t.tcl", TCL))], {}),
        ("python-xml", ["python3", "-c", PYTHON], {"PYTHONMALLOC": "malloc"}),
        ("node-zlib", ["node", "-e", NODE], {}),
        ("sqlite3", shell(f"sqlite3 :memory: < {sql} > /dev/null"), {}),
        ("jq", shell(f"jq -s 'group_by(.group) | map({{g: .[0].group, n: length, t: (map(.tags) | add | unique)}})' "
                     f"{lines} > /dev/null"), {}),
        ("git-pack", shell(f"git -C {ROOT} pack-objects --stdout --window=60 --threads=2 --no-reuse-delta "
                           f"< {objects} > /dev/null 2>&1"), {}),
        ("gdb", ["gdb", "-nx", "-batch", "-ex", "info types Verdict", "-ex", "info functions judge", highwater], {}),
        ("vim", ["vim", "-u", "NONE", "-n", "-es", "-S", str(script), str(text)], {}),
        ("xz", shell(f"xz -T2 -5 -k -c --block-size=2MiB {lines} > /dev/null"), {}),
    ]


def write(path, text):
    path.write_text(text)
    return path


def prove(name, command, environment, highwater, work):
    """One program: a row for each arm, or why there is none."""
    folder = work / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    env = {key: value for key, value in os.environ.items() if not key.startswith("MALLOC_")} | environment
    call = lambda *words: subprocess.run([highwater, *words], cwd=folder, env=env, stdin=subprocess.DEVNULL,
                                         capture_output=True, text=True)
    start = time.monotonic()
    recorded = call("record", "--quiet", "--out", "t.hwt", "--", *command)
    length = time.monotonic() - start
    replayed = call("replay", "t.hwt", "--quiet", "--json", "--ledger", str(work / "ledger"), "--experiment", "p.toml")
    if not (folder / "p.toml").exists():
        return f"record {recorded.returncode}, replay {replayed.returncode}: {replayed.stderr.strip()[-200:]}"
    replay = json.loads(replayed.stdout)
    ran = call("run", "p.toml", "--runs", str(work / "runs"), "--json", "--quiet")
    if not ran.stdout:
        return f"run {ran.returncode}: {ran.stderr.strip()[-300:]}"
    report = json.loads(ran.stdout)
    print(f"\n## {name}\n\nRecorded {length:.1f} s, {replay['operations'] / 1e6:.2f} M operations, {replay['threads']} "
          f"thread(s); self-check {'trusted' if replay['trusted'] else 'NOT trusted'}.\n")
    print_head("arm", "predicted MiB", "measured MiB", "error", "outcome")
    for one in report["predictions"]:
        interval = lambda kind: "–" if one[f"{kind}_rss_anon_bytes"] is None else "%.1f [%.1f, %.1f]" % tuple(
            one[f"{kind}_rss_anon{part}_bytes"] / MIB for part in ("", "_lo", "_hi"))
        error = "–" if one["error_share"] is None else f"{100 * one['error_share']:+.1f} %"
        print_row(one["arm"], interval("predicted"), interval("measured"), error, f"{one['outcome']} {one['why']}")
    return None


def main():
    arguments = parser(__doc__)
    arguments.add_argument("--highwater", required=True)
    arguments.add_argument("--work", required=True, type=pathlib.Path)
    arguments.add_argument("--only", default="")
    options = arguments.parse_args()
    highwater = os.path.abspath(options.highwater)
    work = options.work.resolve()
    work.mkdir(parents=True, exist_ok=True)
    only = [name for name in options.only.split(",") if name]
    print(f"Load at the start {os.getloadavg()[0]:.1f}, {os.cpu_count()} processors.")
    for name, command, environment in programs(work, highwater):
        if not only or name in only:
            why = prove(name, command, environment, highwater, work)
            if why:
                print(f"\n## {name}\n\nNo prediction: {why}")
    print("\n" + subprocess.run([highwater, "log", "--ledger", str(work / "ledger")], capture_output=True, text=True)
          .stdout.strip().splitlines()[-1])
    print(f"Load at the end {os.getloadavg()[0]:.1f}.")


if __name__ == "__main__":
    main()
