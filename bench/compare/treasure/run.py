#!/usr/bin/env python3
"""Measures the treasure server: memory per session, connections, rates, pauses, hostile input.

    bench/compare/treasure/run.py idle [--sessions 5000000] [--binary NAME]    bytes per idle session
    bench/compare/treasure/run.py live [--players 19000]                       live connections, all tapped
    bench/compare/treasure/run.py late [--rate 100000]                         how late the load itself is
    bench/compare/treasure/run.py pauses                                       6 ms every 12 s, as the load sees them
    bench/compare/treasure/run.py rate [--step 60] [--limit-ms 15]             highest rate by bisection
    bench/compare/treasure/run.py hostile                                      p99 with 1,000 bad messages a second

Build first: subjects/treasure/build NAME. Everything runs on 127.0.0.1 and in a temporary folder.

On a shared machine, --first runs server and load ahead of all ordinary programs (SCHED_RR, needs root), so that their
run-queue waits are not measured. Steps are short, for the others wait meanwhile. --apart gives the load half of the
CPUs and the server the others, as if they were two machines: no send then waits for the server's slice (up to 2.8 ms).
"""
import json
import os
import random
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from harness import MIB, TARGET, cpu_s, free_port, parser, status_bytes, stop  # noqa: E402


def cpus_of(options, who):
    """With --apart: half of the CPUs are the server's; the hostile program has one of the load's."""
    cpus = sorted(os.sched_getaffinity(0))
    half = len(cpus) // 2
    mine = cpus[:half - 1] if options.what == "hostile" and half > 1 else cpus[:half]
    return {"server": cpus[half:], "load": mine, "hostile": cpus[half - 1:half]}[who]


def placed(options, who):
    """What a child or thread does before its work: takes its place among the others."""
    def place():
        if options.first and who != "hostile":
            os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
        if options.apart:
            os.sched_setaffinity(0, cpus_of(options, who))
    return place


class Server:
    def __init__(self, options, *more, who="server"):
        self.place_load = placed(options, "load")
        self.folder = tempfile.TemporaryDirectory()
        self.port, self.http = free_port(), free_port()
        program = TARGET / "subjects" / f"treasure-{options.binary}"
        command = [program, "--port", self.port, "--http", self.http, "--data", self.folder.name,
                   "--net", options.net, "--threads", options.threads, *more]
        self.process = subprocess.Popen([str(word) for word in command], stderr=subprocess.PIPE, text=True,
                                        preexec_fn=placed(options, who))
        for line in self.process.stderr:
            if "ready on" in line:
                break
        else:
            sys.exit("the server did not start")
        threading.Thread(target=self.process.stderr.read, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        stop(self.process)
        self.folder.cleanup()

    def memory_bytes(self):
        """Resident bytes, anonymous only: the log's pages are the kernel's."""
        found = status_bytes(self.process.pid, "RssAnon")
        return sys.exit("no RssAnon in the server's status") if found is None else found

    def cpu_s(self):
        return cpu_s(self.process.pid)


def stolen_and_wanted():
    """CPU time that the hypervisor gave to other guests, and that anybody here wanted, in ticks since boot."""
    fields = [int(word) for word in Path("/proc/stat").read_text().splitlines()[0].split()[1:9]]
    return fields[7], sum(fields[at] for at in (0, 1, 2, 5, 6, 7))


def load(server, *more):
    """Runs the load; its last line's figures, and the share of the CPU time wanted here that the host kept."""
    before = stolen_and_wanted()
    figures = load_only(server, *more)
    stolen, wanted = (after - then for after, then in zip(stolen_and_wanted(), before))
    print(f"  stolen by the host: {100 * stolen / max(1, wanted):.1f} % of "
          f"{wanted / os.sysconf('SC_CLK_TCK'):.0f} CPU-seconds")
    return figures


def load_only(server, *more):
    command = [TARGET / "release" / "treasure-load", "--server", f"127.0.0.1:{server.port}", *more]
    done = subprocess.run([str(word) for word in command], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                          preexec_fn=server.place_load)
    lines = done.stderr.strip().splitlines()
    for line in lines:
        if not line.startswith("{"):
            print(line)
    if done.returncode != 0:
        sys.exit("the load failed")
    return json.loads(next(line for line in lines if line.startswith("{")))


def ms(ns):
    return f"{ns / 1e6:.3f} ms"


def quantiles(figures):
    return ", ".join(f"{name} {ms(figures[name])}" for name in ("p50", "p99", "p999", "p9999", "max"))


def idle(options):
    for coins in ("inline", "boxed"):
        with Server(options, "--coins", coins, "--snapshot", "1h", "--spray", "16") as server:
            before = server.memory_bytes()
            done = load(server, "--sessions", options.sessions, "--cover", "--players", 1, "--rate", 10,
                        "--duration", "3s")
            more = server.memory_bytes() - before
            print(f"{options.binary} {coins}: {options.sessions} sessions, each resumed and tapped once: "
                  f"{more / MIB:.0f} MiB more, {more / options.sessions:.1f} bytes each (wrong: {done['wrong']})")


def live(options):
    with Server(options) as server:
        before = server.memory_bytes()
        seen = []
        watch = threading.Timer(25, lambda: seen.append(server.memory_bytes()))
        watch.start()
        done = load(server, "--players", options.players, "--rate", options.rate or 4000, "--ramp", "10s",
                    "--duration", "30s")
        watch.cancel()
        more = seen[0] - before if seen else 0
        print(f"{options.net}: {options.players} live connections, {done['requests']} taps, {done['errors']} errors, "
              f"{done['dropped']} dropped; {more / options.players:.0f} bytes a connection; "
              f"{quantiles(done['latency_ns'])}")


def late(options):
    with Server(options, "--spray", "1", "--coins", "inline") as server:
        rate = options.rate or 100_000
        done = load(server, "--players", 500, "--threads", 2, "--rate", rate, "--even", "--ramp", "2s",
                    "--duration", "15s")
        print(f"{rate} taps/s: {done['requests']} answered, {done['errors']} errors, {done['dropped']} dropped")
        print(f"  sent late by: {quantiles(done['late_ns'])}, over 1 ms: {done['late_ns']['over_1ms']}")
        print(f"  latency: {quantiles(done['latency_ns'])}")


def pauses(options):
    with Server(options, "--pause", "6ms", "--pause-every", "12s") as server:
        rate = options.rate or 2000
        done = load(server, "--players", 50, "--rate", rate, "--even", "--pause-over", "3ms", "--duration", "123s")
        print(f"6 ms every 12 s, {rate} taps/s: pauses {done['pauses']}")
        print(f"  latency: {quantiles(done['latency_ns'])} (6 in 12,000 wait: p99.975 should be 3 ms)")


def rate_holds(options, rate):
    with Server(options) as server:
        start, cpu = time.monotonic(), server.cpu_s()
        done = load(server, "--players", 1000, "--threads", 2, "--rate", rate, "--ramp", "2s",
                    "--duration", f"{options.step}s")
        used = (server.cpu_s() - cpu) / (time.monotonic() - start)
    p99, sent_late = done["latency_ns"]["p99"], done["late_ns"]["over_1ms"]
    good = p99 <= options.limit_ms * 1e6 and done["errors"] == 0 and done["dropped"] == 0
    print(f"  {rate} taps/s: {quantiles(done['latency_ns'])}; server {used:.2f} cores; sent over 1 ms late: "
          f"{sent_late} of {done['requests']}; {'holds' if good else 'does not hold'}", flush=True)
    return good


def rate(options):
    for _ in range(options.rounds):
        low, high = 0, options.rate or 160_000
        while high - low > max(1000, high // 20):
            middle = (low + high) // 2 // 500 * 500
            low, high = (middle, high) if rate_holds(options, middle) else (low, middle)
        print(f"{options.binary} {options.net}: highest rate with p99 <= {options.limit_ms} ms in steps of "
              f"{options.step} s: {low} taps/s")


def bad_message(dice):
    kind = dice.randrange(4)
    if kind == 0:
        return b"\xff\xff"
    if kind == 1:
        return bytes(dice.randrange(256) for _ in range(dice.randrange(1, 64)))
    if kind == 2:
        return b"\x08\x00"  # half a frame, left open
    return b"\x08\x00\x02" + bytes(8)  # a tap before the hello


def be_hostile(port, per_s, until, place):
    place()
    dice = random.Random(1)
    open_ones = []
    due = time.monotonic()
    count = 0
    while time.monotonic() < until:
        due += 1 / per_s
        time.sleep(max(0, due - time.monotonic()))
        try:
            one = socket.create_connection(("127.0.0.1", port), timeout=1)
            one.sendall(bad_message(dice))
            open_ones.append(one)
            count += 1
        except OSError:
            pass
        if len(open_ones) > 500:
            open_ones.pop(0).close()
    for one in open_ones:
        one.close()
    print(f"  {count} bad messages in connections of their own")


def hostile(options):
    for round_number in range(options.rounds):
        for per_s in (0, 1000) if round_number % 2 == 0 else (1000, 0):
            with Server(options) as server, Server(options, who="hostile" if options.decoy else "server") as other:
                if per_s:
                    until = time.monotonic() + 18
                    target = other if options.decoy else server
                    sender = (target.port, per_s, until, placed(options, "hostile"))
                    threading.Thread(target=be_hostile, args=sender).start()
                done = load(server, "--players", 200, "--rate", options.rate or 5000, "--ramp", "2s",
                            "--duration", "20s")
            print(f"{options.net}, {per_s} bad messages a second: {quantiles(done['latency_ns'])}, "
                  f"{done['errors']} errors", flush=True)


def main():
    arguments = parser(__doc__)
    arguments.add_argument("what", choices=["idle", "live", "late", "pauses", "rate", "hostile"])
    arguments.add_argument("--binary", default="system", help="target/subjects/treasure-NAME")
    arguments.add_argument("--net", default="tokio", choices=["tokio", "uring"])
    arguments.add_argument("--threads", type=int, default=2)
    arguments.add_argument("--sessions", type=int, default=5_000_000)
    arguments.add_argument("--players", type=int, default=19_000)
    arguments.add_argument("--rate", type=int)
    arguments.add_argument("--step", type=int, default=60)
    arguments.add_argument("--rounds", type=int, default=1)
    arguments.add_argument("--limit-ms", type=float, default=15)
    arguments.add_argument("--first", action="store_true", help="ahead of all ordinary programs")
    arguments.add_argument("--apart", action="store_true", help="server and load on CPUs of their own")
    arguments.add_argument("--decoy", action="store_true",
                        help="hostile: the bad messages go to another server, on the CPU of their sender")
    options = arguments.parse_args()
    globals()[options.what](options)


if __name__ == "__main__":
    main()
