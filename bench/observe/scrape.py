"""What a scrape of `highwater observe` costs, with 50 and with 500 processes.

    cargo build --release && python3 bench/observe/scrape.py [--rounds 60]

Needs gcc. The processes are those of run.py (fleet.c). CPU is the kernel's own count for all threads of the endpoint, so
waiting for a processor does not count; searches for new processes (once in ten seconds) are in it.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import tempfile
import time
import urllib.request

HERE = pathlib.Path(__file__).resolve().parent
HIGHWATER = HERE.parent.parent / "target/release/highwater"
ACCEPT = {"Accept": "application/openmetrics-text; version=1.0.0"}


def cpu_ms(pid):
    """CPU time of a process and of the threads that it has had, milliseconds."""
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return 1000 * (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def scrape(url):
    begin = time.time()
    with urllib.request.urlopen(urllib.request.Request(url, headers=ACCEPT)) as page:
        size = len(page.read())
    return size, 1000 * (time.time() - begin)


def measure(program, count, every, rounds):
    fleet = [subprocess.Popen([program], stdin=subprocess.PIPE) for _ in range(count)]
    time.sleep(1)
    flags = ["--exe", f"^{program}$", "--listen", "0", "--interval", "1ms", "--json"]
    command = [HIGHWATER, "observe", *flags]
    endpoint = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        url = json.loads(endpoint.stdout.readline())["url"]
        first = cpu_ms(endpoint.pid)
        costs, walls = [], []
        # Single scrapes are below the kernel's tick of 10 ms: ten at a time.
        for _ in range(max(rounds // 10, 3)):
            before = cpu_ms(endpoint.pid)
            for _ in range(10):
                time.sleep(every)
                size, wall = scrape(url)
                walls.append(wall)
            costs.append((cpu_ms(endpoint.pid) - before) / 10)
        status = pathlib.Path(f"/proc/{endpoint.pid}/status").read_text()
        rss = next(line for line in status.splitlines() if line.startswith("VmRSS"))
        print(
            f"{count} processes, a scrape every {every:g} s: {statistics.median(costs):.1f} ms of CPU "
            f"[{min(costs):.1f} to {max(costs):.1f}], {statistics.median(costs) / every / 10:.2f} % of a core; "
            f"first look {first:.0f} ms; answer after {statistics.median(walls):.1f} ms [to {max(walls):.1f}]; "
            f"page {size / 1e6:.2f} MB; resident {int(rss.split()[1]) / 1024:.1f} MiB"
        )
    finally:
        endpoint.terminate()
        endpoint.wait()
        for process in fleet:
            process.stdin.close()
        for process in fleet:
            process.wait()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=60)
    rounds = parser.parse_args().rounds
    with tempfile.TemporaryDirectory() as folder:
        program = str(pathlib.Path(folder) / "fleet")
        subprocess.run(["gcc", "-O1", "-pthread", "-o", program, HERE / "fleet.c"], check=True)
        for count in (50, 500):
            measure(program, count, 1.0, rounds)
        measure(program, 500, 5.0, rounds // 2)


if __name__ == "__main__":
    main()
