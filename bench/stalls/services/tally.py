"""Python: threads that serve connections; threading's locks and the interpreter's own. One fault by flag: lock (a reply awaited
under a threading.Lock), interpreter (a library's long call that does not let the interpreter's lock go). "fixed" is mended."""

import os
import re
import socket
import sys
import threading
import time

path, seconds, kind = sys.argv[1], float(sys.argv[2]), sys.argv[3]
fixed = "fixed" in sys.argv
truth = open(path, "w", buffering=1)
till = threading.Lock()
sold = 0
ours, far = socket.socketpair()
pairs = [socket.socketpair() for _ in range(6)]
if os.fork() == 0:
    ours.close()

    def ask(to, gap):
        try:
            while to.send(b"a") and to.recv(1):
                time.sleep(gap)
        except OSError:
            pass
        os._exit(0)

    for at, (here, there) in enumerate(pairs):
        here.close()
        threading.Thread(target=ask, args=(there, 0.008 + at / 1000), daemon=True).start()
    while far.recv(1):
        time.sleep(0.08)
        far.send(b"a")
    os._exit(0)
far.close()


def long_search():
    # Backtracks for some tens of milliseconds, in one call of the library.
    re.match(r"(a+)+b", "a" * 20)


def settle():
    global sold
    if kind == "lock":
        if fixed:
            ours.send(b"a")
            ours.recv(1)
        with till:
            if not fixed:
                ours.send(b"a")
                ours.recv(1)
            sold += 1
    elif not fixed:
        # The others notice nothing themselves: they wait on their way out of a call.
        start = time.monotonic_ns()
        long_search()
        truth.write(f"stall 9 {start} {time.monotonic_ns()}\n")


def settles():
    while True:
        time.sleep(0.6)
        settle()


def serves(me, conn):
    global sold
    while conn.recv(1):
        start = time.monotonic_ns()
        with till:
            sold += 1
        sum(range(3000))
        conn.send(b"a")
        end = time.monotonic_ns()
        if end - start > 3_000_000:
            truth.write(f"stall {me} {start} {end}\n")


for at, (here, there) in enumerate(pairs):
    there.close()
    threading.Thread(target=serves, args=(at, here), daemon=True).start()
threading.Thread(target=settles, daemon=True).start()
time.sleep(seconds)
os._exit(0)
