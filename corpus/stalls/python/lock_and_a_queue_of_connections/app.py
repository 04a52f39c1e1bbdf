"""Five threads take connections, one request each, from a queue.Queue; a request counts under a threading.Lock.

A thread reports every 2.6 s. --fault network: it makes a round trip of 200 ms with the lock. --fault sleep: it
sleeps 160 ms with the lock. Healthy: it does both outside the lock.
"""
import os
import queue
import socket
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../common"))
from service import REQUEST, ask_over, dial_peer, read_settings, start_load, start_peer  # noqa: E402

settings = read_settings(rate=100, connections=6)
counts_lock, connections, counts = threading.Lock(), queue.Queue(), {}


def send_report(ms):
    with dial_peer(settings) as peer:
        return ask_over(peer, ms)


def back_off_report(ms):
    time.sleep(ms / 1000)


def serve_requests():
    while True:
        stream = connections.get()
        request = stream.recv(REQUEST.size)
        if len(request) == REQUEST.size:
            with counts_lock:
                counts[request[0]] = counts.get(request[0], 0) + sum(range(800))
            stream.sendall(request)
        stream.close()


def report_counts():
    turn = 0
    while True:
        time.sleep(2.6)
        turn += 1
        if settings.fault == "network":
            with counts_lock:
                send_report(200)
        elif settings.fault == "sleep":
            with counts_lock:
                back_off_report(160)
        elif turn % 2:
            send_report(200)
        else:
            back_off_report(160)


def main():
    listener = socket.create_server(("127.0.0.1", settings.port), backlog=64)
    start_peer(settings)
    for _ in range(5):
        threading.Thread(target=serve_requests, daemon=True).start()
    threading.Thread(target=report_counts, daemon=True).start()
    start_load("connect", settings)
    while True:
        stream, _ = listener.accept()
        stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connections.put(stream)


main()
