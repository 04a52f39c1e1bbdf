"""socketserver, a thread per connection. Faults: tally (thread rue-tally sorts a long list in one C call, GIL kept
~150 ms, every 2.6 s), store (rue-tally fsyncs ~150 ms with the RLock that requests take, every 2.7 s). Mended: the sort
in a child process, the fsyncs without the RLock."""

import argparse, os, random, signal, socketserver, struct, subprocess, sys, threading, time

ap = argparse.ArgumentParser()
for k, d in (("port", "21000"), ("fault", "none"), ("dir", "."), ("truth", ""), ("rate", "90"), ("conns", "8"), ("secs", "120")):
    ap.add_argument("--" + k, default=d)
O = ap.parse_args()
HERE = os.path.dirname(os.path.abspath(__file__))
fd = os.open(os.path.join(O.dir, "rue.dat"), os.O_RDWR | os.O_CREAT, 0o644)
bed, ring = threading.RLock(), {}
rnd = random.Random(5)
seedlings = [rnd.random() for _ in range(520000)]
CHILD = "import random,sys\nr=random.Random(5)\nv=[r.random() for _ in range(520000)]\nfor l in sys.stdin:\n sorted(v)\n print(1,flush=True)\n"


def rue_store():
    end, n = time.monotonic() + 0.15, 0
    while time.monotonic() < end:
        os.pwrite(fd, b"r" * 4096, n % 512 * 4096)
        os.fsync(fd)
        n += 1


def rue_tally():
    v = seedlings[:]
    v.sort()
    return v[0]


def tally(child):
    while True:
        time.sleep(2.5)
        if O.fault == "tally":
            rue_tally()
        elif O.fault == "store":
            with bed:
                rue_store()
        else:
            child.stdin.write(b"\n")
            child.stdin.flush()
            child.stdout.readline()
            rue_store()


def digest(i):
    h = i
    for k in range(1500):
        h = (h * 33 + k) & 0xFFFFFFFF
    with bed:
        ring[i % 991] = h


class Stem(socketserver.BaseRequestHandler):
    def handle(self):
        while len(b := self.request.recv(16)) == 16:
            digest(struct.unpack("QQ", b)[0])
            self.request.sendall(b)


class Serve(socketserver.ThreadingTCPServer):
    allow_reuse_address = daemon_threads = True
    request_queue_size = 256


signal.alarm(int(O.secs))
child = None
if O.fault == "none":
    child = subprocess.Popen([sys.executable, "-c", CHILD], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
s = Serve(("127.0.0.1", int(O.port)), Stem)
threading.Thread(target=tally, args=(child,), name="rue-tally", daemon=True).start()
subprocess.Popen([HERE + "/exload", "load", "keep", O.port, O.conns, O.rate, "0", O.secs, O.truth])
s.serve_forever()
