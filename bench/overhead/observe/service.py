#!/usr/bin/env python3
"""What `highwater explain --pid` does to a service, as root: requests a second and their latency, with and without.

    bench/overhead/observe/service.py [--rounds 3] [--seconds 12] [--highwater FILE]

A row for each rate (as fast as it can, 1,000 and 5,000 requests a second of 200 pairs of malloc and free), the median
of the rounds with the least and the most; with and without in turn. Build first: cargo build --release -p highwater
"""
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1]))
from harness import HIGHWATER, compile_c, load_average, parser, print_head, print_row, spread  # noqa: E402

RATES = (0, 1000, 5000)


def serve(program, rate, seconds, highwater):
    """(requests a second, median, 99 %, 99.9 %), and the share of a core that the breakpoints took."""
    service = subprocess.Popen([program, str(rate), str(seconds)], stdout=subprocess.PIPE, text=True)
    share = None
    if highwater:
        time.sleep(1)
        words = [highwater, "explain", "--json", "--quiet", "--duration", f"{seconds - 2}s", "--pid", str(service.pid)]
        answer = json.loads(subprocess.run(words, capture_output=True, text=True).stdout)
        share = (answer["uprobes"] or {}).get("core_share")
    numbers = [float(number) for number in service.communicate()[0].split()]
    return numbers, share


def main():
    arguments = parser(__doc__)
    arguments.add_argument("--rounds", type=int, default=3)
    arguments.add_argument("--seconds", type=int, default=12)
    arguments.add_argument("--highwater", default=str(HIGHWATER))
    options = arguments.parse_args()
    print(f"{load_average()}, {options.rounds} rounds of {options.seconds} s\n")
    columns = ("requests a second", "median us", "99 %", "99.9 %", "of a core")
    print_head("rate", "", *columns, right=columns)
    with tempfile.TemporaryDirectory() as folder:
        program = compile_c(HERE / "service.c", f"{folder}/service")
        for rate in RATES:
            rounds = [[serve(program, rate, options.seconds, watcher) for watcher in (None, options.highwater)]
                      for _ in range(options.rounds)]
            for which, name in enumerate(("alone", "explain")):
                runs = [pair[which] for pair in rounds]
                columns = [spread([numbers[at] for numbers, _ in runs], "{:,.0f}") for at in range(4)]
                shares = [share for _, share in runs if share is not None]
                share = f"{100 * statistics.median(shares):.1f} %" if shares else ""
                print_row(rate or "full speed", name, *columns, share)


if __name__ == "__main__":
    main()
