"""Allocates by ctypes from several threads and never frees. Each way has a size of its own, of 16 bytes more than blocks
of any other size have."""
import ctypes
import os
import sys
import threading
import time

library = ctypes.CDLL(None)
library.malloc.restype = ctypes.c_void_p
library.malloc.argtypes = [ctypes.c_size_t]


def keep(size):
    nothing = None
    return library.malloc(size) or nothing


class Store:
    def handle(self):
        keep(
            50_021
        )


def deep(depth):
    if depth == 0:
        keep(60_021)
    else:
        deep(depth - 1)


def each():
    keep(70_021)
    yield


def in_a_long_thread():
    while True:
        keep(80_021)
        time.sleep(0.002)


def in_a_short_thread():
    keep(90_021)


def turn():
    Store().handle()
    deep(100)
    list(each())
    exec(compile("\n\nkeep(100_021)", f"made-{time.time_ns()}", "exec"))
    short = threading.Thread(target=in_a_short_thread)
    short.start()
    short.join()


def main():
    if "fork" in sys.argv and os.fork():
        time.sleep(600)
        os._exit(0)
    for _ in range(12):
        threading.Thread(target=in_a_long_thread, daemon=True).start()
    print(os.getpid(), flush=True)
    end = time.monotonic() + 60
    while time.monotonic() < end:
        turn()
        time.sleep(0.002)


main()
