#!/usr/bin/env python3
"""What the probe costs a server that runs beside its own twins: the same noise for all of them.

    bench/probe/beside.py redis|http [--sets N] [--rounds N] [--turn-ms N] [--arms NAME,...] [--cpus SERVER,CLIENT] [--seed N] [--root FOLDER]

Three servers are started on one CPU: two as they are, one with the probe. They are warmed for two seconds each, then
answer in turns of some milliseconds, in random order within each round, what the client sends from another CPU.
A ratio is that of one turn to the turn of the first plain server in the same round; the second plain server's ratio
says what the method makes of no difference. Each set of servers is started anew, since where a process comes to lie in
memory has a cost of its own: the interval (95 %) is of a bootstrap over sets. As root all of it takes
precedence over other programs (SCHED_FIFO). http is serve.rs, on the system's allocator; rustc builds it.
"""
import argparse
import os
import pathlib
import random
import socket
import statistics
import subprocess
import sys
import tempfile
import time

BENCH = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(BENCH))
from ports import free_port  # noqa: E402

PROBE = BENCH.parent / "target/release/libhighwater_probe.so"
# What is in front, and its variables; the first is what the others are compared with.
ARMS = {
    "plain": (None, {}),
    "plain again": (None, {}),
    "probe": ("probe", {}),
    "256K": ("probe", {"HIGHWATER_PROBE_MEAN": "256K"}),
    "512K": ("probe", {"HIGHWATER_PROBE_MEAN": "512K"}),
    "shim": ("shim", {}),
    "no samples": ("probe", {"HIGHWATER_PROBE_MEAN": "1024M", "HIGHWATER_PROBE_BYTES": "sampled"}),
    "off": ("probe", {"HIGHWATER_PROBE": "off"}),
}
CONNECTIONS = 2
WARM_S = 2.0
# The kernel takes 5 % of each second from whoever runs with precedence: rest so long by oneself.
REST_S = 0.004
BOOTSTRAPS = 4000


def redis_requests(at_once):
    """(what to send, lines of the answer)"""
    text, lines = [], 0
    for number in range(at_once):
        key = f"key:{random.randrange(100_000)}"
        words, answer = [(("SET", key, "v" * 200), 1), (("GET", "there"), 2), (("LPUSH", "list", "v" * 200), 1)][number % 3]
        text.append(f"*{len(words)}\r\n" + "".join(f"${len(word)}\r\n{word}\r\n" for word in words))
        lines += answer
    return "".join(text).encode(), lines


def http_requests(at_once):
    text = [
        f"GET /items/{random.randrange(100_000)}?user=u{random.randrange(1000)}&page=2 HTTP/1.1\r\nHost: localhost\r\n"
        "User-Agent: bench\r\nAccept: application/json\r\nCookie: session=0123456789abcdef; theme=dark\r\n\r\n"
        for _ in range(at_once)
    ]
    # Three lines of header, an empty one, one of body.
    return "".join(text).encode(), 5 * at_once


class Server:
    def __init__(self, options, folder, arm):
        self.port, self.at_once = free_port(), options.at_once
        front, variables = ARMS[arm]
        mean = {"HIGHWATER_PROBE_MEAN": options.mean} if options.mean else {}
        environment = {**os.environ, **mean, **variables, "LD_PRELOAD": ""}
        if front:
            environment["LD_PRELOAD"] = str({"probe": options.probe, "shim": f"{folder}/shim.so"}[front])
        if options.root:
            environment["LD_LIBRARY_PATH"] = f"{options.root}/usr/lib/x86_64-linux-gnu"
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        self.process = subprocess.Popen(command(options, folder, self.port), env=environment, **quiet)
        pin(options, self.process.pid, options.cpus[0])
        self.clients = [self.connect() for _ in range(CONNECTIONS)]

    def connect(self):
        for _ in range(400):
            try:
                return socket.create_connection(("127.0.0.1", self.port))
            except OSError:
                time.sleep(0.05)
        sys.exit("the server does not answer")

    def cpu_ns(self):
        threads = pathlib.Path(f"/proc/{self.process.pid}/task").glob("*/schedstat")
        return sum(int(thread.read_text().split()[0]) for thread in threads)

    def turn(self, buffers, seconds):
        """(requests per second, CPU nanoseconds per request); there is always more for the server to do."""
        batches, end = 0, time.perf_counter() + seconds
        used, begun = -self.cpu_ns(), time.perf_counter()
        waiting = []
        for client in self.clients:
            waiting.append(send(client, buffers))
        while time.perf_counter() < end:
            for index, client in enumerate(self.clients):
                receive(client, waiting[index])
                batches += 1
                waiting[index] = send(client, buffers)
        for index, client in enumerate(self.clients):
            receive(client, waiting[index])
            batches += 1
        took, used = time.perf_counter() - begun, used + self.cpu_ns()
        requests = batches * self.at_once
        return requests / took, used / requests

    def end(self):
        for client in self.clients:
            client.close()
        self.process.terminate()
        self.process.wait()


def send(client, buffers):
    text, lines = random.choice(buffers)
    client.sendall(text)
    return lines


def receive(client, lines):
    while lines > 0:
        part = client.recv(1 << 18)
        if not part:
            sys.exit("the server has closed the connection")
        lines -= part.count(b"\n")


def command(options, folder, port):
    if options.subject == "http":
        return [f"{folder}/serve", str(port)]
    binary = f"{options.root}/usr/bin/redis-server" if options.root else "redis-server"
    return [binary, "--port", str(port), "--bind", "127.0.0.1", "--dir", folder, "--save", ""]


def pin(options, pid, cpu):
    os.sched_setaffinity(pid, {cpu})
    if os.geteuid() == 0:
        os.sched_setscheduler(pid, os.SCHED_FIFO, os.sched_param(1))


def one_set(options, folder, buffers):
    """Of each round (rate, CPU per request) by arm."""
    arms = options.arms
    started = {arm: Server(options, folder, arm) for arm in random.sample(arms, len(arms))}
    try:
        for server in started.values():
            if options.subject == "redis":
                server.clients[0].sendall(b"SET there " + b"v" * 200 + b"\r\n")
                receive(server.clients[0], 1)
            server.turn(buffers, WARM_S)
        rounds = []
        for _ in range(options.rounds):
            seen = {}
            for arm in random.sample(arms, len(arms)):
                seen[arm] = started[arm].turn(buffers, options.turn_ms / 1000)
                time.sleep(REST_S)
            rounds.append(seen)
        return rounds
    finally:
        for server in started.values():
            server.end()


def interval(sets):
    """Mean over sets of the median ratio of each, with the 95 % interval of a bootstrap over sets."""
    medians = [statistics.median(ratios) for ratios in sets]
    means = sorted(statistics.mean(random.choices(medians, k=len(medians))) for _ in range(BOOTSTRAPS))
    return statistics.mean(medians), means[int(0.025 * BOOTSTRAPS)], means[int(0.975 * BOOTSTRAPS)]


def report(options, sets):
    load = os.getloadavg()[0]
    print(f"{options.subject}, {len(sets)} sets of {options.rounds} rounds, turns of {options.turn_ms} ms, {options.at_once} requests at once, seed {options.seed}, load average {load:.0f}")
    print("| | throughput | CPU per request |\n|---|--:|--:|")
    for arm in options.arms[1:]:
        cells = []
        for at in (0, 1):
            ratios = [[seen[arm][at] / seen["plain"][at] for seen in rounds] for rounds in sets]
            cells.append("{:.4f} [{:.4f}..{:.4f}]".format(*interval(ratios)))
        print(f"| {arm} / plain | {cells[0]} | {cells[1]} |")
    plain = [seen["plain"] for rounds in sets for seen in rounds]
    print(f"plain: {statistics.median(rate for rate, _ in plain):.0f} requests a second, {statistics.median(ns for _, ns in plain):.0f} ns of CPU each")


def main():
    parse = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parse.add_argument("subject", choices=["redis", "http"])
    parse.add_argument("--sets", type=int, default=10)
    parse.add_argument("--rounds", type=int, default=30)
    parse.add_argument("--arms", default="plain,plain again,probe", type=lambda text: text.split(","), help=", ".join(ARMS))
    parse.add_argument("--at-once", type=int, default=8, help="requests on their way on each of two connections")
    parse.add_argument("--mean", help="distance of samples with the probe, as 256K; else it follows the load, which here pauses")
    parse.add_argument("--probe", default=str(PROBE))
    parse.add_argument("--turn-ms", type=int, default=60)
    parse.add_argument("--cpus", default="2,3", type=lambda text: [int(cpu) for cpu in text.split(",")])
    parse.add_argument("--seed", type=int, default=1)
    parse.add_argument("--root", help="holds usr/bin/redis-server (dpkg -x of the package), else PATH is searched")
    options = parse.parse_args()
    random.seed(options.seed)
    buffers = [{"redis": redis_requests, "http": http_requests}[options.subject](options.at_once) for _ in range(64)]
    pin(options, 0, options.cpus[1])
    sets = []
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["gcc", "-O2", "-shared", "-fPIC", "-o", f"{folder}/shim.so", BENCH / "probe/shim.c", "-ldl"], check=True)
        if options.subject == "http":
            subprocess.run(["rustc", "-O", "-o", f"{folder}/serve", BENCH / "probe/serve.rs"], check=True)
        for _ in range(options.sets):
            sets.append(one_set(options, folder, buffers))
    report(options, sets)


if __name__ == "__main__":
    main()
