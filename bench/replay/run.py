#!/usr/bin/env python3
"""Predictions of `highwater replay` against the same program run for real under each allocator.

    bench/replay/run.py --highwater target/release/highwater --work FOLDER [--redis redis-server] [--only NAME]

Prints a table per subject as Markdown; the raw numbers go to FOLDER/NAME.json. Each program is recorded once under the
allocator that it comes with, replayed three times per arm, and run for real twice per arm.
"""

import argparse
import itertools
import json
import os
import pathlib
import socket
import statistics
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).parent
ARMS = ["glibc", "jemalloc@5.3.0", "mimalloc@2.0.9", "mimalloc@2.1.7", "mimalloc@3.0.1", "mimalloc@3.3.2",
        "gperftools@2.10"]
MIB = 1 << 20


def anon_bytes(pid):
    try:
        text = pathlib.Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return None
    for line in text.splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) << 10
    return None


class Subject:
    def __init__(self, name, command, env, load=None, glibc=None):
        self.name, self.command, self.env, self.load, self.glibc = name, command, env, load, glibc

    def environment(self):
        env = {key: value for key, value in os.environ.items() if not key.startswith("MALLOC_")}
        env.update(self.env)
        return env

    def start(self, prefix=(), preload=None):
        env, command, port = self.environment(), list(self.command), None
        if self.load:
            with socket.socket() as free:
                free.bind(("127.0.0.1", 0))
                port = free.getsockname()[1]
            command = [word.replace("PORT", str(port)) for word in command]
        if preload:
            env["LD_PRELOAD"] = preload
        process = subprocess.Popen([*prefix, *command], env=env, stdout=subprocess.DEVNULL,
                                   stderr=subprocess.PIPE if prefix else subprocess.DEVNULL)
        client = subprocess.Popen([*self.load, str(port)]) if self.load else None
        return process, client

    def run_real(self, library):
        process, client = self.start(preload=library)
        samples, faults = [], 0
        while process.poll() is None:
            now = anon_bytes(process.pid)
            if now is not None:
                samples.append(now)
                try:
                    faults = int(pathlib.Path(f"/proc/{process.pid}/stat").read_text().rsplit(")", 1)[1].split()[7])
                except (OSError, IndexError):
                    pass
            time.sleep(0.1)
        if client:
            client.wait()
        return {"mean": statistics.mean(samples), "end": samples[-1], "peak": max(samples), "faults": faults,
                "seconds": len(samples) / 10, "code": process.returncode}


def tau(pairs):
    """Kendall's tau over pairs that differ by more than 5 % for real."""
    concordant = discordant = 0
    for (a, ra), (b, rb) in itertools.combinations(pairs, 2):
        if abs(ra - rb) <= 0.05 * max(ra, rb):
            continue
        if (a - b) * (ra - rb) > 0:
            concordant += 1
        else:
            discordant += 1
    total = concordant + discordant
    return ((concordant - discordant) / total if total else float("nan")), concordant, discordant


def library_of(highwater, arm):
    if arm == "glibc":
        return None
    return subprocess.check_output([highwater, "allocators", "path", arm], text=True).strip()


def measure(subject, args):
    trace = args.work / f"{subject.name}.hwt"
    trace.unlink(missing_ok=True)
    process, client = subject.start(prefix=[args.highwater, "record", "--json", "--out", str(trace), "--"],
                                    preload=subject.glibc)
    recorded = json.loads(process.communicate()[1])
    if client:
        client.wait()
    begun = time.time()
    replayed = subprocess.run([args.highwater, "replay", str(trace), "--allocators", ",".join(ARMS), "--json", "-q"],
                              stdout=subprocess.PIPE, text=True)
    replay_s = time.time() - begun
    forecast = json.loads(replayed.stdout)
    real = {}
    for _ in range(args.real):
        for arm in ARMS:
            library = subject.glibc if arm == "glibc" else library_of(args.highwater, arm)
            real.setdefault(arm, []).append(subject.run_real(library))
    result = {"recorded": recorded, "replay_s": replay_s, "exit": replayed.returncode, "forecast": forecast,
              "real": real, "load": os.getloadavg()}
    (args.work / f"{subject.name}.json").write_text(json.dumps(result))
    return result


def of_arm(forecast, arm):
    for row in forecast["arms"]:
        if row["allocator"] == arm or (arm == "glibc" and row["allocator"].endswith("libc_malloc.so")):
            return row
    return None


def table(name, result):
    recorded, check = result["recorded"], result["forecast"]["self_check"]
    print(f"### {name}\n")
    print(f"{recorded['events'] / 1e6:.2f} M events of {recorded['threads']} threads in "
          f"{recorded['length_ns'] / 1e9:.1f} s, {recorded['bytes_per_event']:.1f} bytes an event. "
          f"Replay of {len(result['forecast']['arms'])} arms, three times each: {result['replay_s']:.0f} s. Exit code {result['exit']}. "
          f"Load {result['load'][0]:.1f}.\n")
    if check:
        print(f"Self-check: {'trusted' if check['is_trusted'] else 'NOT trusted'}, off by "
              f"{100 * check['off_share']:.1f} % on average (mean {check['replayed_mean_bytes'] / MIB:.1f} against "
              f"{check['recorded_mean_bytes'] / MIB:.1f} MiB).\n")
    else:
        print(f"Self-check: none, {result['forecast']['self_check_missing']}\n")
    print("| arm | mean MiB, predicted / real | end MiB | peak MiB | faults k | error of end |")
    print("|---|---|---|---|---|---|")
    errors, means, ends = [], [], []
    for arm in ARMS:
        row, real = of_arm(result["forecast"], arm), result["real"][arm]
        if row is None or row["forecast"] is None:
            print(f"| {arm} | {row and row['problem']} | | | | |")
            continue
        f = row["forecast"]
        cells = []
        for key in ["mean", "end", "peak"]:
            runs = [run[key] / MIB for run in real]
            cells.append(f"{f[key + '_bytes']['median'] / MIB:.1f} / {statistics.mean(runs):.1f}"
                         + (f" [{min(runs):.1f}, {max(runs):.1f}]" if max(runs) > 1.02 * min(runs) else ""))
        runs = [run["faults"] / 1e3 for run in real]
        end = statistics.mean(run["end"] for run in real)
        error = f["end_bytes"]["median"] / end - 1
        errors.append((abs(error), abs(f["end_bytes"]["median"] - end) / MIB))
        means.append((f["mean_bytes"]["median"], statistics.mean(run["mean"] for run in real)))
        ends.append((f["end_bytes"]["median"], end))
        print(f"| {arm} | {' | '.join(cells)} | {f['minor_faults']['median'] / 1e3:.0f} / {statistics.mean(runs):.0f} "
              f"| {100 * error:+.1f} % |")
    shares = [share for share, _ in errors]
    print(f"\nEnd: median error {100 * statistics.median(shares):.1f} %, worst {100 * max(shares):.1f} %. "
          f"tau of the mean {tau(means)[0]:.2f} ({tau(means)[1]} of {tau(means)[1] + tau(means)[2]} pairs), "
          f"of the end {tau(ends)[0]:.2f} ({tau(ends)[1]} of {tau(ends)[1] + tau(ends)[2]}).\n")


def subjects(args):
    threads = args.work / "threads"
    subprocess.check_call(["cc", "-O1", "-pthread", str(HERE / "threads.c"), "-o", str(threads)])
    yield Subject("threads", [str(threads)], {})
    yield Subject("python", ["/usr/bin/python3", str(HERE / "json_churn.py")], {"PYTHONMALLOC": "malloc"})
    if args.redis:
        shim = args.work / "libc_malloc.so"
        subprocess.check_call(["cc", "-O2", "-w", "-shared", "-fPIC", "-fno-builtin", str(HERE / "libc_malloc.c"),
                               "-o", str(shim), "-ldl"])
        command = [args.redis, "--port", "PORT", "--save", "", "--appendonly", "no"]
        load = [sys.executable, str(HERE / "redis_load.py")]
        yield Subject("redis", command, {}, load, str(shim))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--highwater", required=True)
    parser.add_argument("--work", type=pathlib.Path, required=True)
    parser.add_argument("--redis")
    parser.add_argument("--only")
    parser.add_argument("--real", type=int, default=2)
    args = parser.parse_args()
    args.work.mkdir(parents=True, exist_ok=True)
    for subject in subjects(args):
        if not args.only or subject.name == args.only:
            table(subject.name, measure(subject, args))


main()
