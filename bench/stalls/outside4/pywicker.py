"""asyncio with an executor of two threads that every request uses for a quick lookup. Faults: glut (every 2.6 s two jobs
that wait 240 ms for the backend occupy both threads), grind (every 2.7 s a thread of its own runs a regular expression
~150 ms, which keeps the GIL), parse (every 2.5 s a request json.loads() a large document in the loop, ~120 ms).
Mended: the slow jobs have an executor of their own, the expression and the document go in small pieces with pauses."""

import argparse, asyncio, json, os, re, signal, socket, struct, subprocess, threading, time
from concurrent.futures import ThreadPoolExecutor

ap = argparse.ArgumentParser()
for k, d in (("port", "21000"), ("fault", "none"), ("dir", "."), ("truth", ""), ("rate", "90"), ("conns", "10"), ("secs", "120")):
    ap.add_argument("--" + k, default=d)
O = ap.parse_args()
HERE = os.path.dirname(os.path.abspath(__file__))
pool = ThreadPoolExecutor(2, "osier")
side = ThreadPoolExecutor(2, "willow")
PAT = re.compile(r"\s+$")
ring = {}
due = time.monotonic() + 3


def make_text():
    n = 1000
    while True:
        t = [time.perf_counter() for _ in range(3) if PAT.search(" " * n + "x") is None]
        if (t[2] - t[0]) / 2 > 0.13:
            return " " * n + "x", " " * (n // 11) + "x"
        n = n * 11 // 10


def make_doc():
    one = json.dumps([{"k": i, "v": [i, i + 1, "t%d" % i]} for i in range(400)])
    n = 20
    while True:
        doc = "[" + ",".join([one] * n) + "]"
        t = time.perf_counter()
        json.loads(doc)
        if time.perf_counter() - t > 0.1:
            return doc, one
        n = n * 5 // 4


TEXT, SHORT = make_text()
DOC, PIECE = make_doc()


def wick_ask(ms):
    with socket.create_connection(("127.0.0.1", int(O.port) + 1)) as s:
        s.sendall(struct.pack("QQ", 1, ms))
        return s.recv(16)


def wick_match(t):
    return PAT.search(t)


def wick_parse(t):
    return len(json.loads(t))


def weaver():
    while True:
        time.sleep(2.5)
        if O.fault == "grind":
            wick_match(TEXT)
        else:
            for _ in range(40):
                wick_match(SHORT)
                time.sleep(0.01)


def look(i):
    h = i
    for k in range(300):
        h = (h * 33 + k) & 0xFFFFFFFF
    ring[i % 997] = h


async def twice():
    loop = asyncio.get_running_loop()
    while True:
        await asyncio.sleep(2.36)
        e = pool if O.fault == "glut" else side
        await asyncio.gather(*(loop.run_in_executor(e, wick_ask, 240) for _ in range(2)))


async def later():
    for _ in range(40):
        wick_parse(PIECE)
        await asyncio.sleep(0.01)


async def serve(r, w):
    global due
    loop = asyncio.get_running_loop()
    while True:
        try:
            b = await r.readexactly(16)
        except asyncio.IncompleteReadError:
            break
        await loop.run_in_executor(pool, look, struct.unpack("QQ", b)[0])
        if O.fault in ("parse", "none") and time.monotonic() > due:
            due = time.monotonic() + 2.5
            if O.fault == "parse":
                wick_parse(DOC)
            else:
                asyncio.ensure_future(later())
        w.write(b)
        await w.drain()
    w.close()


async def main():
    s = await asyncio.start_server(serve, "127.0.0.1", int(O.port), backlog=256)
    subprocess.Popen([HERE + "/exload", "kpeer", str(int(O.port) + 1)])
    await asyncio.sleep(0.2)
    if O.fault in ("glut", "none"):
        asyncio.ensure_future(twice())
    if O.fault in ("grind", "none"):
        threading.Thread(target=weaver, name="weaver", daemon=True).start()
    subprocess.Popen([HERE + "/exload", "load", "keep", O.port, O.conns, O.rate, "0", O.secs, O.truth])
    async with s:
        await s.serve_forever()


signal.alarm(int(O.secs))
asyncio.run(main())
