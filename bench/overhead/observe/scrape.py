#!/usr/bin/env python3
"""What a scrape of `highwater observe` costs, with 50 and with 500 processes.

    cargo build --release && python3 bench/overhead/observe/scrape.py [--rounds 60]

Needs gcc. The processes are those of run.py (fleet.c). CPU is the kernel's own count for all threads of the endpoint,
so run-queue waits do not count; searches for new processes (once in ten seconds) are in it.
"""

import json
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
from harness import HIGHWATER, MIB, cpu_s, parser, spread, status_bytes, stop  # noqa: E402
from fleet import fleet  # noqa: E402

ACCEPT = {"Accept": "application/openmetrics-text; version=1.0.0"}


def scrape(url):
    start = time.time()
    with urllib.request.urlopen(urllib.request.Request(url, headers=ACCEPT)) as page:
        size = len(page.read())
    return size, 1000 * (time.time() - start)


def measure(program, count, every, rounds):
    flags = ["--exe", f"^{program}$", "--listen", "0", "--interval", "1ms", "--json"]
    command = [HIGHWATER, "observe", *flags]
    endpoint = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        url = json.loads(endpoint.stdout.readline())["url"]
        first = cpu_s(endpoint.pid)
        costs, walls = [], []
        # Single scrapes are below the kernel's tick of 10 ms: ten at a time.
        for _ in range(max(rounds // 10, 3)):
            before = cpu_s(endpoint.pid)
            for _ in range(10):
                time.sleep(every)
                size, wall = scrape(url)
                walls.append(wall)
            costs.append(100 * (cpu_s(endpoint.pid) - before))
        print(
            f"{count} processes, a scrape every {every:g} s: {spread(costs, '{:.1f}')} ms of CPU, "
            f"{statistics.median(costs) / every / 10:.2f} % of a core; first snapshot {1000 * first:.0f} ms; "
            f"answer after {statistics.median(walls):.1f} ms [to {max(walls):.1f}]; "
            f"page {size / 1e6:.2f} MB; resident {status_bytes(endpoint.pid, 'VmRSS') / MIB:.1f} MiB"
        )
    finally:
        stop(endpoint)


def main():
    arguments = parser(__doc__)
    arguments.add_argument("--rounds", type=int, default=60)
    rounds = arguments.parse_args().rounds
    for count, every, of in ((50, 1.0, rounds), (500, 1.0, rounds), (500, 5.0, rounds // 2)):
        with tempfile.TemporaryDirectory() as folder, fleet(folder, count) as (program, _):
            measure(program, count, every, of)


if __name__ == "__main__":
    main()
