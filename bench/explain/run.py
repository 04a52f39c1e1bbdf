#!/usr/bin/env python3
"""Runs `highwater explain` on every program of programs.toml and holds what it says against the truth.

    bench/explain/run.py [--table FILE] [--only NAME,...] [--duration 60s] [--at-once 3] [--out FILE] [--json FOLDER]
                         [--highwater FILE] [--pid SECONDS]

With --pid each program is started plainly, runs for so long, and is then explained by its pid. A table in Markdown goes to stdout or FILE; exit code 1 when an answer is wrong. Build first:
    cargo build --release -p highwater -p highwater-probe
What cannot be built here (no compiler, no allocator in the cache) is left out with a word.
"""
import argparse
import concurrent.futures
import contextlib
import datetime
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile
import time
import tomllib

HERE = pathlib.Path(__file__).resolve().parent
CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache")) / "highwater"
# Where highwater keeps its allocators.
ALLOCATORS = pathlib.Path(os.environ.get("HIGHWATER_CACHE", CACHE)) / "allocators"
CARGO = pathlib.Path(os.environ.get("CARGO_HOME", pathlib.Path.home() / ".cargo"))
# What an explanation may take beyond its duration: a busy machine gets up to three times the time.
PATIENCE_S = 300


def first(places):
    return str(next(iter(sorted(places)), ""))


def places(folder, sources):
    return {
        "b": folder,
        "s": sources,
        "zig": first(CACHE.glob("ziglang-*/venv/lib/python*/site-packages/ziglang/zig")) or "zig",
        "jemalloc": first(ALLOCATORS.glob("jemalloc@5.3.0/lib*.so*")),
        "mimalloc": first(CARGO.glob("registry/src/*/libmimalloc-sys-0.1.39/c_src/mimalloc")),
    }


def build(commands, known):
    """Names of what could not be built."""
    failed = set()
    for name, command in commands.items():
        done = subprocess.run(shlex.split(command.format(**known)), capture_output=True, text=True) if have(command, known) else None
        if done is None or done.returncode:
            failed.add(name)
            reason = done.stderr.strip().splitlines()[-1:] if done else "its compiler is missing"
            print(f"SKIPPED: {name} could not be built: {reason}", file=sys.stderr)
    return failed


def have(command, known):
    tool = shlex.split(command.format(**known))[0]
    return subprocess.run(["which", tool], capture_output=True).returncode == 0


def explain(highwater, row, known, duration, warm_s):
    by_pid = row.get("pid") or warm_s
    command = shlex.split(row["run"].format(**known))
    environment = {**os.environ, "PYTHONPATH": str(known["b"])}
    environment.pop("LD_PRELOAD", None)
    words = [highwater, "explain", "--json", "--quiet", "--duration", duration]
    inside = dict(environment)
    if "over" in row:
        library = first(ALLOCATORS.glob(f"{row['over']}/lib*.so*"))
        if not library:
            return None
        inside["LD_PRELOAD"] = library
        # Only the program runs on it, not highwater.
        command = ["env", f"LD_PRELOAD={library}"] + command if by_pid else command
    if not by_pid:
        done = subprocess.run(words + ["--"] + command, env=inside, capture_output=True, text=True, timeout=PATIENCE_S)
        return answer(done)
    program = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL)
    try:
        time.sleep(warm_s or 2)
        done = subprocess.run(words + ["--pid", str(program.pid)], env=environment, capture_output=True, text=True, timeout=PATIENCE_S)
        return answer(done)
    finally:
        program.kill()
        program.wait()


def answer(done):
    try:
        return {"exit": done.returncode, **json.loads(done.stdout)}
    except ValueError:
        return {"exit": done.returncode, "error": done.stderr.strip()}


def named(said):
    """Functions of the site that the verdict is about, innermost first."""
    return [frame["function"] for frame in said["sites"][0]["frames"]] if said["sites"] else []


def judged(row, said, is_by_pid):
    """(mark, cause, function)"""
    right = row.get("by-pid", row["truth"]) if is_by_pid else row["truth"]
    if said is None:
        return "skipped", "", ""
    if "verdict" not in said:
        return "WRONG", f"no answer: {said['error'][-80:]}", ""
    cause, functions = said["verdict"]["cause"], named(said)
    shown = functions[0] if functions and said["sites"] else ""
    if cause not in right:
        return ("honest" if cause in row.get("honest", []) else "WRONG"), cause, shown
    if "function" in row and row["function"] not in (functions[:1] or [""])[0]:
        return "name", cause, shown
    if "caller" in row and not any(row["caller"] in name for name in functions[:5]):
        return "name", cause, shown
    return "right", cause, shown


def line(name, row, said, is_by_pid):
    mark, cause, function = judged(row, said, is_by_pid)
    share = unexplained = looks = ""
    if said and "verdict" in said:
        looks = said["snapshots"]
        share = f"{said['sites'][0]['share_of_growth']:.2f}" if said["sites"] and function else ""
        parts = {part["name"]: part["bytes"] for part in said["parts"]}
        unexplained = f"{100 * parts['unexplained'] / max(said['rss_bytes'], 1):.1f} %"
    truth = " or ".join(row.get("by-pid", row["truth"]) if is_by_pid else row["truth"]) + (f" {row.get('function') or row.get('caller') or ''}".rstrip())
    return mark, f"| {name} | {row['what']} | {truth} | {cause} {function[:60]} | {share} | {unexplained} | {looks} | {mark} |"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--table", default=str(HERE / "programs.toml"))
    parser.add_argument("--only", default="")
    parser.add_argument("--duration", default="60s")
    parser.add_argument("--at-once", type=int, default=3)
    parser.add_argument("--out")
    parser.add_argument("--built", help="a folder that keeps what was built, for the next time")
    parser.add_argument("--json")
    parser.add_argument("--pid", type=float, metavar="SECONDS")
    parser.add_argument("--highwater", default=str(HERE.parent.parent / "target/release/highwater"))
    options = parser.parse_args()
    where = pathlib.Path(options.table).resolve()
    table = tomllib.loads(where.read_text())
    wanted = [name for name in options.only.split(",") if name]
    rows = {name: row for name, row in table["program"].items() if not wanted or name in wanted}
    begin, load = datetime.datetime.now(), os.getloadavg()[0]
    with contextlib.nullcontext(options.built) if options.built else tempfile.TemporaryDirectory() as folder:
        os.makedirs(folder, exist_ok=True)
        known = places(folder, where.parent / table.get("sources", "."))
        # Only what the chosen programs need.
        text = " ".join(row["run"] for row in rows.values())
        commands = needed(table["build"], text) if wanted else table["build"]
        commands = {} if options.built and os.listdir(folder) else commands
        build(commands, known)
        with concurrent.futures.ThreadPoolExecutor(options.at_once) as pool:
            runs = {name: pool.submit(one, name, row, known, options) for name, row in rows.items()}
            marks = [runs[name].result() for name in rows]
    finish(options, marks, begin, load)


def needed(commands, text):
    """Those that make what the text names, and what these need themselves, in their order."""
    chosen = {name for name, command in commands.items() if used(command, text)}
    more = " ".join([text, *(commands[name] for name in chosen)])
    if more != text and any(used(command, more) for name, command in commands.items() if name not in chosen):
        return needed(commands, more)
    return {name: command for name, command in commands.items() if name in chosen}


def used(command, text):
    outputs = [name for name in re.findall(r"\{b\}/([\w./-]+)", command) if not name.startswith("zig")]
    linked = [f"-l{name[3:-3]}" for name in outputs if name.startswith("lib") and name.endswith(".so")]
    names = [f"{{b}}/{name}" for name in outputs] + linked
    # An extension or a class is found by its own name.
    loaded = not outputs or any(name.endswith((".so", ".node")) for name in outputs)
    return any(re.search(rf"{re.escape(name)}(?![\w.-])", text) for name in names) or (
        loaded and re.search(r"\b(python3|node|java) ", text))


def one(name, row, known, options):
    program = shlex.split(row["run"].format(**known))[0]
    is_there = program[0] != "/" or os.path.exists(program)
    try:
        said = explain(options.highwater, row, known, options.duration, options.pid) if is_there else None
    except subprocess.TimeoutExpired:
        said = {"exit": None, "error": f"no answer after {PATIENCE_S} s"}
    if options.json and said:
        pathlib.Path(options.json).mkdir(parents=True, exist_ok=True)
        (pathlib.Path(options.json) / f"{name}.json").write_text(json.dumps(said, indent=1))
    mark, text = line(name, row, said, bool(options.pid))
    print(text, file=sys.stderr, flush=True)
    return mark, text


def finish(options, marks, begin, load):
    counts = {mark: sum(1 for m, _ in marks if m == mark) for mark in ("right", "name", "honest", "WRONG", "skipped")}
    by_pid = f", by --pid after {options.pid:.0f} s" if options.pid else ""
    head = [
        f"{begin:%Y-%m-%d %H:%M} to {datetime.datetime.now():%H:%M}, load average {load:.0f} to {os.getloadavg()[0]:.0f}, "
        f"{options.at_once} at once, {options.duration} each{by_pid}: " + ", ".join(f"{n} {m}" for m, n in counts.items() if n),
        "",
        "| program | what | truth | said | share | unexplained | looks | |",
        "|---|---|---|---|---|---|---|---|",
    ]
    text = "\n".join(head + [text for _, text in marks]) + "\n"
    if options.out:
        pathlib.Path(options.out).write_text(text)
    else:
        print(text)
    sys.exit(1 if counts["WRONG"] or counts["name"] else 0)


if __name__ == "__main__":
    main()
