#!/usr/bin/env python3
"""Predictions of `highwater replay` against the same program run for real under each allocator.

    bench/compare/replay/run.py --highwater target/release/highwater --work FOLDER [--redis redis-server] [--only NAME]

Prints a table per subject as Markdown; the raw numbers go to FOLDER/NAME.json. Each program is recorded once under the
allocator that it comes with, replayed three times per arm, and run for real twice per arm.
"""

import itertools
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1]))
from harness import (MIB, SHARED, compile_c, free_port, parser, print_head, print_row, stat_fields,  # noqa: E402
                     status_bytes)

ARMS = ["glibc", "jemalloc@5.3.0", "mimalloc@2.0.9", "mimalloc@2.1.7", "mimalloc@3.0.1", "mimalloc@3.3.2",
        "gperftools@2.10"]


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
            port = free_port()
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
            now = status_bytes(process.pid, "RssAnon")
            if now is not None:
                samples.append(now)
                try:
                    faults = int(stat_fields(process.pid)[7])
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
    start = time.time()
    replayed = subprocess.run([args.highwater, "replay", str(trace), "--allocators", ",".join(ARMS), "--json", "-q"],
                              stdout=subprocess.PIPE, text=True)
    replay_s = time.time() - start
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
          f"Replay of {len(result['forecast']['arms'])} arms, three times each: {result['replay_s']:.0f} s. "
          f"Exit code {result['exit']}. "
          f"Load {result['load'][0]:.1f}.\n")
    if check:
        print(f"Self-check: {'trusted' if check['is_trusted'] else 'NOT trusted'}, off by "
              f"{100 * check['off_share']:.1f} % on average (mean {check['replayed_mean_bytes'] / MIB:.1f} against "
              f"{check['recorded_mean_bytes'] / MIB:.1f} MiB).\n")
    else:
        print(f"Self-check: none, {result['forecast']['self_check_missing']}\n")
    print_head("arm", "mean MiB, predicted / real", "end MiB", "peak MiB", "faults k", "error of end")
    errors, means, ends = [], [], []
    for arm in ARMS:
        row, real = of_arm(result["forecast"], arm), result["real"][arm]
        if row is None or row["forecast"] is None:
            print_row(arm, row and row["problem"], "", "", "", "")
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
        print_row(arm, *cells, f"{f['minor_faults']['median'] / 1e3:.0f} / {statistics.mean(runs):.0f}",
                  f"{100 * error:+.1f} %")
    shares = [share for share, _ in errors]
    print(f"\nEnd: median error {100 * statistics.median(shares):.1f} %, worst {100 * max(shares):.1f} %. "
          f"tau of the mean {tau(means)[0]:.2f} ({tau(means)[1]} of {tau(means)[1] + tau(means)[2]} pairs), "
          f"of the end {tau(ends)[0]:.2f} ({tau(ends)[1]} of {tau(ends)[1] + tau(ends)[2]}).\n")


def subjects(args):
    yield Subject("threads", [compile_c(HERE / "threads.c", args.work / "threads", "-O1", "-pthread")], {})
    yield Subject("python", ["/usr/bin/python3", str(HERE / "json_churn.py")], {"PYTHONMALLOC": "malloc"})
    if args.redis:
        shim = compile_c(HERE / "libc_malloc.c", args.work / "libc_malloc.so", *SHARED, "-w", "-fno-builtin",
                         libraries=["-ldl"])
        command = [args.redis, "--port", "PORT", "--save", "", "--appendonly", "no"]
        load = [sys.executable, str(HERE / "redis_load.py")]
        yield Subject("redis", command, {}, load, shim)


def main():
    arguments = parser(__doc__)
    arguments.add_argument("--highwater", required=True)
    arguments.add_argument("--work", type=pathlib.Path, required=True)
    arguments.add_argument("--redis")
    arguments.add_argument("--only")
    arguments.add_argument("--real", type=int, default=2)
    args = arguments.parse_args()
    args.work.mkdir(parents=True, exist_ok=True)
    for subject in subjects(args):
        if not args.only or subject.name == args.only:
            table(subject.name, measure(subject, args))


if __name__ == "__main__":
    main()
