#!/usr/bin/env python3
"""What the probe costs a server that runs beside its own twins: the same noise for all of them.

    bench/overhead/probe/beside.py redis|http [--sets N] [--rounds N] [--turn-ms N] [--arms NAME,...]
        [--cpus SERVER,CLIENT] [--seed N] [--root FOLDER]

Three servers are started on one CPU: two as they are, one with the probe. They are warmed for two seconds each, then
answer in turns of some milliseconds, in random order within each round, what the client sends from another CPU.
A ratio is that of one turn to the turn of the first plain server in the same round; the second plain server's ratio
says what the method makes of no difference. Each set of servers is started anew, since where a process comes to lie in
memory has a cost of its own: the interval (95 %) is of a bootstrap over sets. As root all of it takes
precedence over other programs (SCHED_FIFO). http is serve.rs, on the system's allocator; rustc builds it.
"""
import os
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1]))
from harness import (PROBE, QUIET, SHARED, compile_c, connected, free_port, interval, parser, print_head,  # noqa: E402
                     print_row, stop, threads_cpu_ns)

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


def redis_requests(at_once):
    """(what to send, lines of the answer)"""
    text, lines = [], 0
    for number in range(at_once):
        key = f"key:{random.randrange(100_000)}"
        commands = [(("SET", key, "v" * 200), 1), (("GET", "there"), 2), (("LPUSH", "list", "v" * 200), 1)]
        words, answer = commands[number % 3]
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
        self.process = subprocess.Popen(command(options, folder, self.port), env=environment, **QUIET)
        pin(options, self.process.pid, options.cpus[0])
        self.clients = [connected(self.port) for _ in range(CONNECTIONS)]

    def turn(self, buffers, seconds):
        """(requests per second, CPU nanoseconds per request); there is always more for the server to do."""
        batches, end = 0, time.perf_counter() + seconds
        used, start = -threads_cpu_ns(self.process.pid), time.perf_counter()
        waiting = [send(client, buffers) for client in self.clients]
        while time.perf_counter() < end:
            for index, client in enumerate(self.clients):
                receive(client, waiting[index])
                batches += 1
                waiting[index] = send(client, buffers)
        for index, client in enumerate(self.clients):
            receive(client, waiting[index])
            batches += 1
        took, used = time.perf_counter() - start, used + threads_cpu_ns(self.process.pid)
        requests = batches * self.at_once
        return requests / took, used / requests

    def end(self):
        for client in self.clients:
            client.close()
        stop(self.process)


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


def report(head, arms, sets):
    """Ratios to `plain` within a round; the interval is over sets."""
    columns = ("throughput", "CPU per request")
    print(f"{head}, load average {os.getloadavg()[0]:.0f}")
    print_head("", *columns, right=columns)
    for arm in arms[1:]:
        ratios = ([[seen[arm][at] / seen["plain"][at] for seen in rounds] for rounds in sets] for at in (0, 1))
        print_row(f"{arm} / plain", *("{:.4f} [{:.4f} to {:.4f}]".format(*interval(of)) for of in ratios))
    rate, cpu_ns = (statistics.median(of) for of in zip(*(seen["plain"] for rounds in sets for seen in rounds)))
    print(f"plain: {rate:.0f} requests a second, {cpu_ns:.0f} ns of CPU each")


def main():
    parse = parser(__doc__)
    parse.add_argument("subject", choices=["redis", "http"])
    parse.add_argument("--sets", type=int, default=10)
    parse.add_argument("--rounds", type=int, default=30)
    parse.add_argument("--arms", default="plain,plain again,probe", type=lambda text: text.split(","),
                       help=", ".join(ARMS))
    parse.add_argument("--at-once", type=int, default=8, help="requests on their way on each of two connections")
    parse.add_argument("--mean",
                       help="distance of samples with the probe, as 256K; else it follows the load, which here pauses")
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
        compile_c(HERE / "shim.c", f"{folder}/shim.so", *SHARED, libraries=["-ldl"])
        if options.subject == "http":
            subprocess.run(["rustc", "-O", "-o", f"{folder}/serve", HERE / "serve.rs"], check=True)
        for _ in range(options.sets):
            sets.append(one_set(options, folder, buffers))
    report(f"{options.subject}, {options.sets} sets of {options.rounds} rounds, turns of {options.turn_ms} ms, "
           f"{options.at_once} requests at once, seed {options.seed}", options.arms, sets)


if __name__ == "__main__":
    main()
