#!/usr/bin/env python3
"""What the probe costs an ordinary Rust service under load: web/ (axum, hyper, tokio) and wrk.

    bench/overhead/probe/web.py [--arms NAME,...] [--sets N] [--rounds N] [--turn-s S] [--connections N]
        [--path PATH] [--cpus SERVER,CLIENT] [--seed N]

Servers run side by side on one CPU: two as they are, one with the probe as it comes, which follows the load by
itself. In each round, in random order, wrk keeps 32 connections of one of them busy for a turn from another CPU; a
ratio is that of one server's turn to the first plain one's in the same round. The second plain server shows what the
method finds where there is no difference. Each set starts the servers again; the interval (95 %) is of a bootstrap
over sets.
"""
import os
import pathlib
import random
import re
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1]))
from beside import report  # noqa: E402
from harness import PROBE, SHARED, TARGET, compile_c, free_port, parser, stop  # noqa: E402

SHIM = TARGET / "web/shim.so"
# What is in front, and its variables; the first is what the others are compared with.
ARMS = {
    "plain": (None, {}),
    "plain again": (None, {}),
    "probe": (PROBE, {}),
    "no exact bytes": (PROBE, {"HIGHWATER_PROBE_BYTES": "sampled"}),
    "no samples": (PROBE, {"HIGHWATER_PROBE_MEAN": "1024M", "HIGHWATER_PROBE_BYTES": "sampled"}),
    "off": (PROBE, {"HIGHWATER_PROBE": "off"}),
    "shim": (SHIM, {}),
}
WARM_S = 3.0


class Server:
    def __init__(self, arm, cpu):
        self.port = free_port()
        front, variables = ARMS[arm]
        environment = {**os.environ, **variables, "LD_PRELOAD": str(front or "")}
        self.process = subprocess.Popen([TARGET / "web/release/web", str(self.port)], env=environment)
        os.sched_setaffinity(self.process.pid, {cpu})
        time.sleep(0.3)

    def cpu_ns(self):
        return int(pathlib.Path(f"/proc/{self.process.pid}/schedstat").read_text().split()[0])

    def turn(self, options, seconds):
        """(requests per second, CPU nanoseconds per request)"""
        url = f"http://127.0.0.1:{self.port}{options.path}"
        wrk = ["wrk", "-t1", f"-c{options.connections}", f"-d{seconds:g}s", url]
        before = self.cpu_ns()
        wrk = ["taskset", "-c", str(options.cpus[1]), *wrk]
        printed = subprocess.run(wrk, capture_output=True, text=True, check=True).stdout
        requests, took = re.search(r"(\d+) requests in ([\d.]+)s", printed).groups()
        if "Non-2xx" in printed or int(requests) == 0:
            sys.exit(f"the server does not answer as it should: {printed}")
        return int(requests) / float(took), (self.cpu_ns() - before) / int(requests)

    def end(self):
        stop(self.process)


def one_set(options):
    arms = options.arms
    servers = {arm: Server(arm, options.cpus[0]) for arm in random.sample(arms, len(arms))}
    try:
        for server in servers.values():
            server.turn(options, WARM_S)
        return [{arm: servers[arm].turn(options, options.turn_s) for arm in random.sample(arms, len(arms))}
                for _ in range(options.rounds)]
    finally:
        for server in servers.values():
            server.end()


def main():
    parse = parser(__doc__)
    parse.add_argument("--arms", default="plain,plain again,probe", type=lambda text: text.split(","),
                       help=", ".join(ARMS))
    parse.add_argument("--sets", type=int, default=6)
    parse.add_argument("--rounds", type=int, default=8)
    parse.add_argument("--turn-s", type=int, default=1)
    parse.add_argument("--connections", type=int, default=32)
    parse.add_argument("--path", default="/items/4200?user=u77&page=2", help="`/` is a request that allocates little")
    parse.add_argument("--cpus", default="0,1", type=lambda text: [int(cpu) for cpu in text.split(",")])
    parse.add_argument("--seed", type=int, default=1)
    options = parse.parse_args()
    random.seed(options.seed)
    build = ["cargo", "build", "--release", "--locked", "--quiet", "--manifest-path", HERE / "web/Cargo.toml",
             "--target-dir", TARGET / "web"]
    subprocess.run(build, check=True)
    compile_c(HERE / "shim.c", SHIM, *SHARED, libraries=["-ldl"])
    sets = [one_set(options) for _ in range(options.sets)]
    report(f"{options.sets} sets of {options.rounds} rounds of {options.turn_s} s, {options.connections} connections, "
           f"{options.path}, seed {options.seed}", options.arms, sets)


if __name__ == "__main__":
    main()
