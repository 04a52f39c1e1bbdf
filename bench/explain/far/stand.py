# A stand in Python: a cache without bounds, and objects of a C library that nobody gives back.
import ctypes
import functools
import os
import sys
import time


@functools.lru_cache(None)
def price(n):
    return f"the price of {n} is " + "9" * 400


def codecs():
    library = ctypes.CDLL(os.environ["PRESS"])
    library.codec_new.restype = ctypes.c_void_p
    library.codec_kind.argtypes = [ctypes.c_void_p]

    def turn(n):
        library.codec_kind(library.codec_new(n))
    return turn


turn = codecs() if sys.argv[1] == "ctypes" else price
n = 0
while True:
    for _ in range(4):
        turn(n)
        n += 1
    passing = [str(i) * 30 for i in range(200)]
    time.sleep(0.01)
