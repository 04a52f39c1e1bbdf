"""CPython: large buffers (malloc) or small objects (the interpreter's arenas) that are kept for ever; rows that a C
library forgets, called by way of ctypes or cffi."""
import sys
import time

KEPT = []


def keep_buffer(size):
    KEPT.append(bytearray(size))


def keep_record(number):
    KEPT.append({"number": number, "words": [str(number), str(number + 1)]})


def churn():
    return [str(i) * 3 for i in range(500)]


def by_ctypes(path):
    import ctypes

    return ctypes.CDLL(path).feed_rows


def by_cffi(path):
    import cffi

    ffi = cffi.FFI()
    ffi.cdef("int feed_rows(int bytes);")
    return ffi.dlopen(path).feed_rows


def take_row(number):
    size = 1500 + number % 1000
    feed_rows(
        size)


which = sys.argv[1] if len(sys.argv) > 1 else "buffers"
feed_rows = {"ctypes": by_ctypes, "cffi": by_cffi}.get(which, lambda path: None)(sys.argv[-1])
number = 0
while True:
    churn()
    for _ in range(20):
        number += 1
        if which == "buffers":
            keep_buffer(2000)
        elif which == "records":
            for each in range(10):
                keep_record(number * 10 + each)
        else:
            take_row(number)
    time.sleep(0.02)
