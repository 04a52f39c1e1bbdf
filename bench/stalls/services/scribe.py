"""Python: five threads that serve connections and put a line each into a queue of six; the one that takes them out asks a peer now and
then, for 110 ms. "fixed" has a queue without an end."""

import os
import queue
import socket
import sys
import threading
import time

path, seconds = sys.argv[1], float(sys.argv[2])
fixed = "fixed" in sys.argv
truth = open(path, "w", buffering=1)
pairs = [socket.socketpair() for _ in range(5)]
far, other_end = socket.socketpair()
if os.fork() == 0:

    def ask(to, gap):
        try:
            while to.send(b"a") and to.recv(1):
                time.sleep(gap)
        except OSError:
            pass
        os._exit(0)

    def answer():
        while other_end.recv(1):
            time.sleep(0.11)
            other_end.send(b"a")

    for at, (here, there) in enumerate(pairs):
        here.close()
        threading.Thread(target=ask, args=(there, 0.006 + at / 1000), daemon=True).start()
    threading.Thread(target=answer, daemon=True).start()
    time.sleep(seconds + 1)
    os._exit(0)

lines = queue.Queue(0 if fixed else 6)


def takes():
    last = time.monotonic()
    while True:
        lines.get()
        if time.monotonic() - last > 0.7:
            far.send(b"a")
            far.recv(1)
            last = time.monotonic()


def serves(me, conn):
    while conn.recv(1):
        came = time.monotonic_ns()
        sum(range(3000))
        start = time.monotonic_ns()
        lines.put(b"line")
        end = time.monotonic_ns()
        if end - start > 1_000_000:
            truth.write(f"wait {me} {start} {end}\n")
        conn.send(b"a")
        if time.monotonic_ns() - came > 3_000_000:
            truth.write(f"stall {me} {came} {time.monotonic_ns()}\n")


for at, (here, there) in enumerate(pairs):
    there.close()
    threading.Thread(target=serves, args=(at, here), daemon=True).start()
threading.Thread(target=takes, daemon=True).start()
time.sleep(seconds)
os._exit(0)
