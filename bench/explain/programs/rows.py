"""CPython: what grows in the interpreter, in its buffers, in C below it; the first argument says which."""
import collections
import ctypes
import sys
import time


def traffic():
    return sum(len({"key": [str(i) * 3, i], "body": "x" * (i * 7 % 900)}) for i in range(300))


class Record:
    def __init__(self, number):
        self.number, self.tags = number, [str(number), number * 2]


def keep_record(kept, number):
    kept.append(Record(number))


def keep_body(kept, number):
    kept.append(bytes(2000 + number % 100))


def lose_in_c(libc):
    libc.strdup(b"y" * 1500)


def objects():
    kept = []
    for number in range(10**9):
        keep_record(kept, number)
        if number % 40 == 0:
            traffic(), time.sleep(0.02)


def bodies():
    kept = []
    for number in range(10**9):
        keep_body(kept, number)
        if number % 5 == 0:
            traffic(), time.sleep(0.02)


def foreign():
    libc = ctypes.CDLL(None)
    libc.strdup.restype = ctypes.c_void_p
    for number in range(10**9):
        lose_in_c(libc)
        if number % 5 == 0:
            traffic(), time.sleep(0.02)


def extension():
    import hwext
    for number in range(10**9):
        hwext.make(1400)
        if number % 5 == 0:
            traffic(), time.sleep(0.02)


def bounded():
    recent = collections.deque(maxlen=3000)
    for number in range(10**9):
        recent.append(bytes(600 + number % 3000))
        if number % 20 == 0:
            traffic(), time.sleep(0.02)


{"objects": objects, "bodies": bodies, "foreign": foreign, "extension": extension, "bounded": bounded}[sys.argv[1]]()
