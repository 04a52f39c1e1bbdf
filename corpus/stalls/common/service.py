"""What the Python services share: arguments, files with fsync, and the starting of the client and of the peer.

See load.c. A request and its answer are the same 16 bytes: an id, and how long a peer has to wait.
"""
import argparse
import os
import signal
import socket
import struct
import subprocess
import sys
import time

REQUEST = struct.Struct("<QQ")


def read_settings(rate, connections):
    """The command line; the arguments are the service's usual load."""
    parser = argparse.ArgumentParser()
    for name, value in (("port", 21000), ("rate", rate), ("connections", connections), ("burst", 0), ("secs", 120)):
        parser.add_argument("--" + name, type=int, default=value)
    for name, value in (("fault", "none"), ("dir", "."), ("truth", "")):
        parser.add_argument("--" + name, default=value)
    settings = parser.parse_args()
    signal.alarm(settings.secs)
    return settings


def _run_load(*words):
    """Starts the program `load`, which lies beside the service's script."""
    folder = os.path.dirname(os.path.abspath(sys.argv[0]))
    subprocess.Popen([os.path.join(folder, "load"), *map(str, words)])


def start_load(mode, settings):
    """Starts the client; the mode is `keep` or `connect`."""
    _run_load(mode, settings.port, settings.connections, settings.rate, settings.burst, settings.secs, settings.truth)


def start_peer(settings):
    """Starts a slow process on the next port."""
    _run_load("peer", settings.port + 1)
    time.sleep(0.15)


def open_file(settings, name):
    return os.open(os.path.join(settings.dir, name), os.O_RDWR | os.O_CREAT, 0o644)


def ask_over(peer, ms):
    """One round trip over a connection to the peer, which answers after so long."""
    peer.sendall(REQUEST.pack(1, ms))
    return peer.recv(REQUEST.size)


def dial_peer(settings):
    return socket.create_connection(("127.0.0.1", settings.port + 1))
