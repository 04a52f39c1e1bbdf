#!/usr/bin/env python3
"""What `stalls` says it added to a program's CPU time, beside the difference in that time. Needs root and a highwater:
    bench/overhead/stalls/added/run.py target/debug/highwater
Rounds alternate: alone, watched, alone, ... Prints medians.
"""
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3]))
from harness import compile_c, load_average, parser  # noqa: E402

# Threads that wake each other across CPUs cost what the scheduler makes of it: ten times as much, or not.
ONE_CPU = ["taskset", "-c", "0"]
ARMS = [
    ("calls, --span", ["calls", "30000"], ["--mode", "ebpf", "--span", "serve"]),
    ("switches, rootless", ["switches", "1000000"], ["--mode", "rootless"]),
    ("switches, tracepoints", ["switches", "1000000"], ["--mode", "tracepoints"]),
    ("switches, ebpf", ["switches", "1000000"], ["--mode", "ebpf"]),
]


def alone(program, work):
    run = subprocess.run([*ONE_CPU, program, *work], capture_output=True, text=True, check=True, timeout=300)
    return float(run.stderr.split("\n")[-2]) / 1e6


def watched(highwater, program, work, options):
    words = [highwater, "stalls", "--json", "--budget", "100", *options, "--duration", "60s", "--"]
    run = subprocess.run([*words, *ONE_CPU, program, *work], capture_output=True, text=True, check=True, timeout=300)
    cpu_ms = float([line for line in run.stderr.split("\n") if line.isdigit()][-1]) / 1e6
    return cpu_ms, json.loads(run.stdout)["overhead"]["added_cpu_s"] * 1e3


def main():
    arguments = parser(__doc__)
    arguments.add_argument("highwater")
    arguments.add_argument("--rounds", type=int, default=5)
    args = arguments.parse_args()
    source = pathlib.Path(__file__).with_name("work.c")
    with tempfile.TemporaryDirectory() as folder:
        program = compile_c(source, f"{folder}/work", "-O1", "-pthread")
        print(f"{load_average()}; milliseconds of CPU time")
        for name, work, options in ARMS:
            rounds = [(alone(program, work), *watched(args.highwater, program, work, options))
                      for _ in range(args.rounds)]
            without, under, said = (statistics.median(column) for column in zip(*rounds))
            times = [of[2] / max(of[1] - of[0], 1e-9) for of in rounds]
            print(f"{name}: alone {without:.1f}, watched {under:.1f}, difference {under - without:.1f}, "
                  f"stalls says {said:.1f} ({said / max(under - without, 1e-9):.2f} times; rounds "
                  f"{min(times):.2f} to {max(times):.2f})", flush=True)


if __name__ == "__main__":
    main()
