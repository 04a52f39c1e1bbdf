"""asyncio, one loop. Faults: nap (a coroutine calls time.sleep(0.16) every 2.4 s), store (the request at every 2.7 s
appends and os.fsync()s for ~140 ms in the loop). Mended: asyncio.sleep / the same in a thread of the executor."""

import argparse, asyncio, os, signal, struct, subprocess, threading, time

ap = argparse.ArgumentParser()
for k, d in (("port", "21000"), ("fault", "none"), ("dir", "."), ("truth", ""), ("rate", "110"), ("conns", "10"), ("secs", "120")):
    ap.add_argument("--" + k, default=d)
O = ap.parse_args()
HERE = os.path.dirname(os.path.abspath(__file__))
fd = os.open(os.path.join(O.dir, "bough.dat"), os.O_RDWR | os.O_CREAT, 0o644)
ring = {}
due = time.monotonic() + 3


def bough_store():
    end, n = time.monotonic() + 0.14, 0
    while time.monotonic() < end:
        os.pwrite(fd, b"b" * 4096, n % 512 * 4096)
        os.fsync(fd)
        n += 1


def bough_rest():
    time.sleep(0.16)


def digest(i):
    h = i
    for k in range(1200):
        h = (h * 33 + k) & 0xFFFFFFFF
    ring[i % 997] = h


async def twig():
    while True:
        await asyncio.sleep(2.24)
        if O.fault == "nap":
            bough_rest()
        else:
            await asyncio.sleep(0.16)


async def serve(r, w):
    global due
    while True:
        try:
            b = await r.readexactly(16)
        except asyncio.IncompleteReadError:
            break
        digest(struct.unpack("QQ", b)[0])
        if O.fault != "nap" and time.monotonic() > due:
            due = time.monotonic() + 2.7
            if O.fault == "store":
                bough_store()
            else:
                asyncio.get_running_loop().run_in_executor(None, bough_store)
        w.write(b)
        await w.drain()
    w.close()


async def main():
    s = await asyncio.start_server(serve, "127.0.0.1", int(O.port), backlog=256)
    asyncio.ensure_future(twig())
    subprocess.Popen([HERE + "/exload", "load", "keep", O.port, O.conns, O.rate, "0", O.secs, O.truth])
    async with s:
        await s.serve_forever()


signal.alarm(int(O.secs))
asyncio.run(main())
