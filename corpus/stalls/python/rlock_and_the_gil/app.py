"""socketserver, a thread for each connection; a request stores its digest under a threading.RLock.

A thread works every 2.5 s. --fault sort: it sorts a long list in one C call, which keeps the GIL for 150 ms.
--fault fsync: it syncs a file for 150 ms with the RLock. Healthy: the sort in a child process, the syncs without
the RLock.
"""
import os
import random
import socketserver
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../common"))
from service import REQUEST, open_file, read_settings, start_load  # noqa: E402

settings = read_settings(rate=90, connections=8)
file = open_file(settings, "digests")
digests_lock, digests = threading.RLock(), {}
generator = random.Random(5)
latencies = [generator.random() for _ in range(520000)]
CHILD = """
import random, sys
generator = random.Random(5)
latencies = [generator.random() for _ in range(520000)]
for line in sys.stdin:
    sorted(latencies)
    print(1, flush=True)
"""


def persist_digests():
    end, count = time.monotonic() + 0.15, 0
    while time.monotonic() < end:
        os.pwrite(file, b"r" * 4096, count % 512 * 4096)
        os.fsync(file)
        count += 1


def compute_percentiles():
    ordered = latencies[:]
    ordered.sort()
    return ordered[0]


def run_statistics(child):
    while True:
        time.sleep(2.5)
        if settings.fault == "sort":
            compute_percentiles()
        elif settings.fault == "fsync":
            with digests_lock:
                persist_digests()
        else:
            child.stdin.write(b"\n")
            child.stdin.flush()
            child.stdout.readline()
            persist_digests()


def digest_request(number):
    digest = number
    for i in range(1500):
        digest = (digest * 33 + i) & 0xFFFFFFFF
    with digests_lock:
        digests[number % 991] = digest


class Handler(socketserver.BaseRequestHandler):
    def handle(self):
        while len(request := self.request.recv(REQUEST.size)) == REQUEST.size:
            digest_request(REQUEST.unpack(request)[0])
            self.request.sendall(request)


class Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = daemon_threads = True
    request_queue_size = 256


def main():
    child = None
    if settings.fault == "none":
        child = subprocess.Popen([sys.executable, "-c", CHILD], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    server = Server(("127.0.0.1", settings.port), Handler)
    threading.Thread(target=run_statistics, args=(child,), name="statistics", daemon=True).start()
    start_load("keep", settings)
    server.serve_forever()


main()
