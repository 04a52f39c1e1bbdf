#!/usr/bin/env python3
"""What `highwater explain --pid` does to a service, as root: requests a second and their latency, with and without.

    bench/observe/service.py [--rounds 3] [--seconds 12] [--highwater FILE]

A row for each rate (as fast as it can, 1,000 and 5,000 requests a second of 200 pairs of malloc and free), the median of the
rounds with the least and the most; with and without in turn. Build first: cargo build --release -p highwater
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
RATES = (0, 1000, 5000)


def serve(program, rate, seconds, highwater):
    """(requests a second, median, 99 %, 99.9 %), and the share of a core that the breakpoints took."""
    service = subprocess.Popen([program, str(rate), str(seconds)], stdout=subprocess.PIPE, text=True)
    share = None
    if highwater:
        time.sleep(1)
        words = [highwater, "explain", "--json", "--quiet", "--duration", f"{seconds - 2}s", "--pid", str(service.pid)]
        said = json.loads(subprocess.run(words, capture_output=True, text=True).stdout)
        share = (said["uprobes"] or {}).get("core_share")
    numbers = [float(number) for number in service.communicate()[0].split()]
    return numbers, share


def spread(values):
    return f"{statistics.median(values):,.0f} [{min(values):,.0f}, {max(values):,.0f}]"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=int, default=12)
    parser.add_argument("--highwater", default=str(HERE.parent.parent / "target/release/highwater"))
    options = parser.parse_args()
    print(f"load average {os.getloadavg()[0]:.1f}, {options.rounds} rounds of {options.seconds} s\n")
    print("| rate | | requests a second | median us | 99 % | 99.9 % | of a core |\n|---|---|--:|--:|--:|--:|--:|")
    with tempfile.TemporaryDirectory() as folder:
        program = f"{folder}/service"
        subprocess.run(["cc", "-O2", "-o", program, str(HERE / "service.c")], check=True)
        for rate in RATES:
            rounds = [(serve(program, rate, options.seconds, None), serve(program, rate, options.seconds, options.highwater))
                      for _ in range(options.rounds)]
            for which, name in enumerate(("alone", "explain")):
                runs = [pair[which] for pair in rounds]
                columns = [spread([numbers[at] for numbers, _ in runs]) for at in range(4)]
                shares = [share for _, share in runs if share is not None]
                share = f"{100 * statistics.median(shares):.1f} %" if shares else ""
                print(f"| {rate or 'full speed'} | {name} | {' | '.join(columns)} | {share} |", flush=True)


if __name__ == "__main__":
    main()
