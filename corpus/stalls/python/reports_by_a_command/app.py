"""A thread for each client. --fault run, read, collect: each fortieth request waits for a command of 150 ms in
convert_report. Healthy: a thread reads the lines of a command that runs all the time.
"""
import os
import socket
import subprocess
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../common"))
from service import REQUEST, read_settings, start_load  # noqa: E402

settings = read_settings(rate=110, connections=8)
has_fault = settings.fault != "none"
lines, counted = [], threading.Lock()


def convert_report():
    command = ["sh", "-c", "sleep 0.15; echo done"]
    if settings.fault == "run":
        subprocess.run(command, stdout=subprocess.DEVNULL)
    elif settings.fault == "read":
        with subprocess.Popen(command, stdout=subprocess.PIPE) as tool:
            tool.stdout.read()
    else:
        subprocess.run(command, capture_output=True)


def follow_feed():
    command = ["sh", "-c", "while sleep 0.3; do echo rate; done"]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as feed:
        for line in feed.stdout:
            lines.append(line)
            del lines[:-100]


def serve_client(client):
    while request := client.recv(REQUEST.size, socket.MSG_WAITALL):
        number = REQUEST.unpack(request)[0]
        with counted:
            sum(range(number % 300))
        if has_fault and number % 40 == 0:
            convert_report()
        client.sendall(request)


listener = socket.create_server(("127.0.0.1", settings.port))
if not has_fault:
    threading.Thread(target=follow_feed, daemon=True).start()
start_load("keep", settings)
while True:
    client, _ = listener.accept()
    client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    threading.Thread(target=serve_client, args=(client,), daemon=True).start()
