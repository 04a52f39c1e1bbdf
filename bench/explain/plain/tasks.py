"""CPython as services use it. First argument: which."""
import collections
import ctypes
import functools
import json
import sys
import threading
import time
import zlib


def serve(n):
    for i in range(n):
        json.loads(json.dumps({"id": i, "tags": ["a", "b"], "text": "t" * 200}))


def loop(step, every, ms):
    n = 0
    while True:
        step(n)
        serve(5)
        if n % every == 0:
            time.sleep(ms / 1000)
        n += 1


registry = {}


def register(n):
    """A dict of ever new keys: small objects, in the interpreter's own arenas."""
    registry[f"key-{n}"] = {"n": n, "list": [n, n + 1]}


uploads = []


def store_upload(n):
    """Bodies of 5 KB, kept in a list."""
    uploads.append(bytes(bytearray(5000)))


libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p


def native_buffer(n):
    """malloc by ctypes, and nobody frees."""
    ctypes.memset(libc.malloc(1500), 1, 1500)


@functools.lru_cache(maxsize=4000)
def render(n):
    return ("page " + str(n)) * 100


def pack(n):
    zlib.decompress(zlib.compress(b"z" * 3000))


def compressors(n):
    """Objects of a native module, kept: each has 256 KB of zlib's."""
    if n % 20 == 0:
        uploads.append(zlib.compressobj())
        uploads[-1].compress(b"c" * 1000)


def workers():
    """Threads with bounded queues; nothing grows."""
    for _ in range(4):
        queue = collections.deque(maxlen=500)
        threading.Thread(target=loop, args=(lambda n, q=queue: q.append(bytes(2000)), 10, 20), daemon=True).start()


def extension(n):
    import hwtask
    hwtask.encode(600)


which = sys.argv[1]
if which == "workers":
    workers()
loop(
    {
        "register": register, "store": store_upload, "native": native_buffer, "render": render, "workers": pack,
        "compressors": compressors, "extension": extension,
    }[which],
    10,
    20,
)
