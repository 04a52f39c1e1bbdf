"""Python: threads that serve connections while another sorts numbers in one call of the interpreter's C code, which keeps the
interpreter's lock for its whole length. "fixed" sorts few numbers at a time."""

import os
import random
import socket
import sys
import threading
import time

path, seconds = sys.argv[1], float(sys.argv[2])
fixed = "fixed" in sys.argv
truth = open(path, "w", buffering=1)
pairs = [socket.socketpair() for _ in range(6)]
if os.fork() == 0:

    def ask(to, gap):
        try:
            while to.send(b"a") and to.recv(1):
                time.sleep(gap)
        except OSError:
            pass
        os._exit(0)

    for at, (here, there) in enumerate(pairs):
        here.close()
        threading.Thread(target=ask, args=(there, 0.007 + at / 1000), daemon=True).start()
    time.sleep(seconds + 1)
    os._exit(0)

numbers = [random.random() for _ in range(160_000)]


def teasel():
    for at in range(0, len(numbers), 400 if fixed else len(numbers)):
        # The others notice little of it themselves: most wait on their way out of a call.
        sorted(numbers[at : at + (400 if fixed else len(numbers))])
        if fixed:
            time.sleep(0.001)


def teases():
    while True:
        time.sleep(0.5)
        start = time.monotonic_ns()
        teasel()
        if not fixed:
            truth.write(f"stall 9 {start} {time.monotonic_ns()}\n")


def serves(me, conn):
    while conn.recv(1):
        start = time.monotonic_ns()
        # Twice over a call that lets the interpreter's lock go: back from it, a request waits like any other.
        for _ in range(2):
            sum(range(2000))
            os.getpriority(os.PRIO_PROCESS, 0)
            os.stat("/")
        conn.send(b"a")
        end = time.monotonic_ns()
        if end - start > 3_000_000:
            truth.write(f"stall {me} {start} {end}\n")


for at, (here, there) in enumerate(pairs):
    there.close()
    threading.Thread(target=serves, args=(at, here), daemon=True).start()
threading.Thread(target=teases, daemon=True).start()
time.sleep(seconds)
os._exit(0)
