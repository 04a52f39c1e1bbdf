#!/usr/bin/env python3
"""What `explain -- CMD` says it cost a program that only allocates, beside the difference in the program's CPU time.

Rounds alternate: alone, under explain, alone, ... Prints medians. Needs a highwater and a release build of the probe:
    HIGHWATER_PROBE_LIBRARY=target/release/libhighwater_probe.so bench/overhead/explain/run.py target/debug/highwater
"""
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
from harness import compile_c, load_average, parser  # noqa: E402

PAIRS = {"once": 150_000_000, "random": 60_000_000}


def alone(program, way, pairs):
    out = subprocess.run([program, way, str(pairs)], capture_output=True, text=True, check=True, timeout=120).stdout
    return float(out) * pairs / 1e9


def explained(highwater, program, way, pairs):
    words = ["explain", "--json", "--quiet", "--duration", "100s", "--every", "300ms", "--budget", "100", "--"]
    run = subprocess.run([highwater, *words, program, way, str(pairs)], capture_output=True, text=True, timeout=200)
    cpu_s = float([line for line in run.stderr.split("\n") if line][-1]) * pairs / 1e9
    overhead = json.loads(run.stdout)["overhead"]
    # The last snapshot is up to a third of a second before the end: what is said is of the calls until then.
    counting = next(item for item in overhead["items"] if item["name"] == "counting")
    seen = counting["events"] / (2 * pairs)
    return cpu_s, overhead["added_cpu_s"] / seen


def main():
    arguments = parser(__doc__)
    arguments.add_argument("highwater")
    arguments.add_argument("--rounds", type=int, default=5)
    args = arguments.parse_args()
    source = pathlib.Path(__file__).with_name("pairs.c")
    with tempfile.TemporaryDirectory() as folder:
        program = compile_c(source, f"{folder}/pairs", "-O2", "-fno-builtin")
        print(load_average())
        for way, pairs in PAIRS.items():
            rounds = [(alone(program, way, pairs), *explained(args.highwater, program, way, pairs))
                      for _ in range(args.rounds)]
            without, under, said = (statistics.median(column) for column in zip(*rounds))
            each = 1e9 / pairs
            print(f"{way}: alone {without * each:.2f} ns a pair, under explain {under * each:.2f}, "
                  f"difference {(under - without) * each:.2f}, explain says {said * each:.2f} "
                  f"({said / max(under - without, 1e-9):.2f} times)", flush=True)


if __name__ == "__main__":
    main()
