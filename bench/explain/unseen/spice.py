"""CPython; names say nothing of what is done. First argument: which."""
import collections
import ctypes
import functools
import mmap
import sys
import threading
import time


def nap(ms):
    time.sleep(ms / 1000)


def stir():
    return [bytes(300) for _ in range(200)]


class Anise:
    pass


def anise():
    """Objects with attributes, kept in a dict of dicts."""
    jar = {}
    for n in range(10**9):
        seed = Anise()
        seed.name, seed.near = f"anise {n}", {"left": n, "right": n + 1.5}
        jar[n] = seed
        if n % 20 == 0:
            nap(20)


def basil():
    """A cache of 3,000 bodies that is full after 9 s."""
    @functools.lru_cache(maxsize=3000)
    def body(n):
        return bytes(2000 + n % 500)
    for n in range(10**9):
        body(n)
        if n % 10 == 0:
            stir()
            nap(30)


def cumin():
    """strdup of the C library, whose answer nobody frees."""
    library = ctypes.CDLL(None)
    library.strdup.restype = ctypes.c_void_p
    text = b"c" * 2500
    for n in range(10**9):
        library.strdup(text)
        if n % 5 == 0:
            stir()
            nap(40)


def dill():
    """Mappings that are kept."""
    kept = []
    for n in range(10**9):
        field = mmap.mmap(-1, 100_000, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        field.write(b"d" * 100_000)
        kept.append(field)
        stir()
        nap(100)


def fennel():
    """Bodies of 4 KB in a queue between two threads, the second of which is too slow."""
    queue = collections.deque()

    def take():
        while True:
            if queue:
                queue.popleft()
            nap(30)
    threading.Thread(target=take, daemon=True).start()
    for n in range(10**9):
        queue.append(bytearray(4000))
        nap(10)


{"anise": anise, "basil": basil, "cumin": cumin, "dill": dill, "fennel": fennel}[sys.argv[1]]()
