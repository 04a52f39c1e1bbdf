"""Memory in CPython; names say nothing of what is done. First argument: which."""
import ctypes
import functools
import gc
import sys
import time

C = ctypes.CDLL(None)
C.malloc.restype = ctypes.c_void_p
C.malloc.argtypes = [ctypes.c_size_t]
C.memset.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t]


class Spoke:
    def __init__(self, n):
        self.rim = None
        self.grease = bytearray(1500 + n % 50)


def wheel(n):
    """Rings that nobody collects."""
    a, b = Spoke(n), Spoke(n + 1)
    a.rim, b.rim = b, a


@functools.lru_cache(maxsize=4000)
def axle(n):
    return bytes(1000 + n % 700)


logs = []


def saddle(n):
    logs.append({"n": n, "text": str(n) * 3})


def pedal(n):
    at = C.malloc(2200)
    C.memset(at, 1, 2200)


def main(which):
    if which == "wheel":
        gc.disable()
    for n in range(10**9):
        if which == "wheel" or which == "wheel-ok":
            wheel(n)
        if which == "axle":
            for i in range(10):
                axle(n * 10 + i)
        if which == "saddle":
            for i in range(40):
                saddle(n)
        if which == "pedal":
            pedal(n)
        text = [str(i) * 5 for i in range(50)]
        time.sleep(0.01 if text else 0)


main(sys.argv[1])
