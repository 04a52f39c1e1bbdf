"""A thread for each client. --fault writes: each request asks a peer in two writes, and the second waits for the
acknowledgement of the first. Healthy: TCP_NODELAY.
"""
import os
import socket
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../common"))
from service import REQUEST, dial_peer, read_settings, start_load, start_peer  # noqa: E402

settings = read_settings(rate=60, connections=8)


def ask_in_parts(peer):
    question = REQUEST.pack(1, 0)
    peer.sendall(question[:8])
    peer.sendall(question[8:])
    peer.recv(REQUEST.size)


def serve_client(client):
    peer = dial_peer(settings)
    if settings.fault != "writes":
        peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    while request := client.recv(REQUEST.size, socket.MSG_WAITALL):
        ask_in_parts(peer)
        client.sendall(request)


start_peer(settings)
listener = socket.create_server(("127.0.0.1", settings.port))
start_load("keep", settings)
while True:
    client, _ = listener.accept()
    client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    threading.Thread(target=serve_client, args=(client,), daemon=True).start()
