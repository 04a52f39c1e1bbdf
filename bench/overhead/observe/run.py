#!/usr/bin/env python3
"""What a snapshot of 200 processes costs: highwater, psutil, process-exporter, on the same processes.

    python3 bench/overhead/observe/run.py [--exporter PATH]

Needs gcc, cargo, and psutil (pip install psutil). PATH is the prometheus-process-exporter of Debian
(apt-get download prometheus-process-exporter; dpkg -x); without it that row is left out.
"""

import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

import psutil

PROCESSES = 200
ROUNDS = 30
HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1]))
from harness import QUIET, cpu_s, parser, stop  # noqa: E402
from fleet import fleet  # noqa: E402


def sample_with_psutil(processes):
    """The same quantities as far as psutil has them, in its fastest way (oneshot)."""
    for process in processes:
        with process.oneshot():
            process.memory_info()
            process.cpu_times()
            process.num_threads()
            process.num_ctx_switches()
            process.create_time()
        process.num_fds()


def bench_psutil(pids):
    processes = [psutil.Process(pid) for pid in pids]
    sample_with_psutil(processes)
    costs = []
    for _ in range(ROUNDS):
        begin = time.process_time()
        sample_with_psutil(processes)
        costs.append(1000 * (time.process_time() - begin))
    return costs


def wait_for(url):
    """The first answer, however long the exporter takes to start on a busy machine (at most 30 s)."""
    for _ in range(300):
        try:
            return urllib.request.urlopen(url).read().decode()
        except urllib.error.URLError:
            time.sleep(0.1)
    raise TimeoutError(f"{url} does not answer")


def bench_exporter(path, folder):
    """CPU of one scrape; its counters tick at 10 ms, so rounds of ten scrapes are measured."""
    config = folder / "exporter.yml"
    config.write_text('process_names:\n  - name: "{{.PID}}"\n    comm: [fleet]\n')
    address = "127.0.0.1:19256"
    command = [path, "-config.path", config, "-web.listen-address", address]
    command += ["-threads=false", "-gather-smaps=false"]
    exporter = subprocess.Popen(command, **QUIET)
    try:
        url = f"http://{address}/metrics"
        page = wait_for(url)
        found = len(re.findall(r"^namedprocess_namegroup_num_procs\{", page, re.M))
        assert found == PROCESSES, f"the exporter sees {found} processes"
        costs = []
        for _ in range(ROUNDS // 3):
            before = cpu_s(exporter.pid)
            for _ in range(10):
                urllib.request.urlopen(url).read()
            costs.append(100 * (cpu_s(exporter.pid) - before))
        return costs
    finally:
        stop(exporter)


def bench_highwater(pids):
    """Criterion's output; it measures CPU time of the sampling thread."""
    command = ["cargo", "bench", "--bench", "snapshot", "--", "--warm-up-time", "2"]
    environment = {**os.environ, "HIGHWATER_BENCH_PIDS": ",".join(map(str, pids))}
    run = subprocess.run(command, env=environment, cwd=HERE, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    return re.findall(r"^(\S[^\n]*?)\s*\n?\s+time:\s+\[(.+)\]", run.stdout, re.M)


def show(name, costs):
    low, high = min(costs), max(costs)
    print(f"{name:24} {statistics.median(costs):8.2f} ms a snapshot [{low:.2f} to {high:.2f}]")


def main():
    arguments = parser(__doc__)
    arguments.add_argument("--exporter")
    exporter = arguments.parse_args().exporter
    with tempfile.TemporaryDirectory() as folder, fleet(folder, PROCESSES) as (_, pids):
        show("psutil", bench_psutil(pids))
        if exporter:
            show("process-exporter", bench_exporter(exporter, pathlib.Path(folder)))
        for name, times in bench_highwater(pids):
            print(f"{name:44} {times}")


if __name__ == "__main__":
    main()
