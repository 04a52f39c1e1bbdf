#!/usr/bin/env python3
"""What the probe costs a real server: redis-server under redis-benchmark, with and without, in interleaved pairs.

    bench/overhead/probe/redis.py [--rounds N] [--requests N] [--root FOLDER] [--allocator FILE] [--bgsave]
    bench/overhead/probe/redis.py --instructions [--mean BYTES] ...

Prints requests per second and the server's own CPU time per request, each as the median of the paired ratios
with / without, with quartiles. With --instructions: the server's instructions per request, counted by callgrind, which
no other program on the machine changes, without samples or with a fixed mean: the program is 50 times slower, and a
mean that follows the time would take 50 times as many. FOLDER holds usr/bin/redis-server (dpkg -x of the package), else
PATH is searched.
"""
import os
import pathlib
import random
import re
import socket
import statistics
import subprocess
import sys
import tempfile
import threading

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
from harness import PROBE, QUIET, connected, free_port, parser, quartiles, stop, threads_cpu_ns  # noqa: E402


def save_again_and_again(port, done):
    """Forks the server for a snapshot twice a second, as long as the load runs."""
    with socket.create_connection(("127.0.0.1", int(port))) as client:
        while not done.wait(0.5):
            client.sendall(b"BGSAVE\r\n")
            client.recv(4096)


def one(options, probe, requests, wrapper=()):
    """Requests per second, and CPU microseconds per request."""
    environment = dict(os.environ)
    binaries = ""
    if options.root:
        environment["LD_LIBRARY_PATH"] = f"{options.root}/usr/lib/x86_64-linux-gnu"
        binaries = f"{options.root}/usr/bin/"
    preload = ([str(PROBE)] if probe else []) + ([options.allocator] if options.allocator else [])
    port = str(free_port())
    with tempfile.TemporaryDirectory() as folder:
        command = [*wrapper, binaries + "redis-server", "--port", port, "--bind", "127.0.0.1", "--dir", folder,
                   "--save", ""]
        server = subprocess.Popen(command, env={**environment, "LD_PRELOAD": ":".join(preload)}, **QUIET)
        try:
            connected(port, 100).close()
            done = threading.Event()
            if options.bgsave:
                threading.Thread(target=save_again_and_again, args=(port, done), daemon=True).start()
            before = threads_cpu_ns(server.pid)
            load = [binaries + "redis-benchmark", "-p", port, "-q", "-t", "set,get,lpush", "-c", "20", "-P", "8"]
            load += ["-n", str(requests), "-r", "100000", "-d", "200"]
            text = subprocess.run(load, env=environment, check=True, capture_output=True, text=True).stdout
            used_ns = threads_cpu_ns(server.pid) - before
            done.set()
        finally:
            stop(server)
    rates = [float(rate) for rate in re.findall(r"([\d.]+) requests per second", text)]
    return statistics.harmonic_mean(rates), used_ns / (requests * len(rates)) / 1e3


# Requests of the shorter of two runs, and what the longer one has more: the difference leaves out start and end.
INSTRUCTED = (2000, 10_000)
COMMANDS = 3


def instructions(options, probe):
    """Of the server, per request."""
    counts = []
    for requests in (INSTRUCTED[0], sum(INSTRUCTED)):
        with tempfile.TemporaryDirectory() as folder:
            out = f"{folder}/callgrind"
            one(options, probe, requests, ["valgrind", "--tool=callgrind", f"--callgrind-out-file={out}"])
            counts.append(int(re.search(r"^(?:summary|totals): (\d+)", pathlib.Path(out).read_text(), re.M).group(1)))
    return (counts[1] - counts[0]) / (INSTRUCTED[1] * COMMANDS)


def count_instructions(options):
    # On redis exact bytes are given up within a second.
    os.environ.update(HIGHWATER_PROBE_MEAN=str(options.mean), HIGHWATER_PROBE_BYTES="sampled")
    ratios = []
    for _ in range(options.rounds):
        without, with_probe = instructions(options, False), instructions(options, True)
        ratios.append(with_probe / without)
        print(f"instructions per request: {without:.0f} without, {with_probe:.0f} with, x {ratios[-1]:.4f}", flush=True)
    print(f"median x {statistics.median(ratios):.4f}, mean of samples {options.mean} bytes, {options.rounds} pairs")


def main():
    parse = parser(__doc__)
    parse.add_argument("--rounds", type=int, default=9)
    parse.add_argument("--requests", type=int, default=200_000)
    parse.add_argument("--root")
    parse.add_argument("--allocator")
    parse.add_argument("--bgsave", action="store_true", help="fork for a snapshot twice a second")
    parse.add_argument("--instructions", action="store_true")
    parse.add_argument("--mean", type=int, default=1 << 30,
                       help="distance of samples for --instructions, bytes; by default none is taken")
    options = parse.parse_args()
    if options.instructions:
        return count_instructions(options)
    rate_ratios, cpu_ratios, cpu = [], [], []
    for _ in range(options.rounds):
        arms = random.sample([False, True], 2)
        seen = {probe: one(options, probe, options.requests) for probe in arms}
        rate_ratios.append(seen[True][0] / seen[False][0])
        cpu_ratios.append(seen[True][1] / seen[False][1])
        cpu.append(seen[False][1])
    for name, values in (("throughput", rate_ratios), ("CPU per request", cpu_ratios)):
        low, middle, high = quartiles(values)
        print(f"{name}, with / without: {middle:.3f} [{low:.3f}..{high:.3f}], {options.rounds} pairs")
    print(f"CPU per request without: {statistics.median(cpu):.2f} us; load {os.getloadavg()[0]:.0f}")


if __name__ == "__main__":
    main()
