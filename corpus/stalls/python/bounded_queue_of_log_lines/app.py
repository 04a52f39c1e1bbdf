"""A thread for each connection; a request puts a line into a queue.Queue of six, which a writer empties.

--fault bounded: every 0.7 s the writer asks a peer for 110 ms, and the queue fills. Healthy: the queue has no
bound.
"""
import os
import queue
import socket
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../common"))
from service import REQUEST, ask_over, dial_peer, read_settings, start_load, start_peer  # noqa: E402

settings = read_settings(rate=600, connections=5)
lines = queue.Queue(6 if settings.fault == "bounded" else 0)


def ship_lines():
    peer, last = dial_peer(settings), time.monotonic()
    while True:
        lines.get()
        if time.monotonic() - last > 0.7:
            ask_over(peer, 110)
            last = time.monotonic()


def serve_connection(stream):
    while len(request := stream.recv(REQUEST.size)) == REQUEST.size:
        sum(range(3000))
        lines.put(b"line")
        stream.sendall(request)


def main():
    listener = socket.create_server(("127.0.0.1", settings.port), backlog=64)
    start_peer(settings)
    threading.Thread(target=ship_lines, daemon=True).start()
    start_load("keep", settings)
    while True:
        stream, _ = listener.accept()
        stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        threading.Thread(target=serve_connection, args=(stream,), daemon=True).start()


main()
