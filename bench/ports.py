"""A port for a server that a benchmark starts."""
import random
import socket


def free_port():
    """Below the ephemeral range, so that no connection of another program takes it in between."""
    while True:
        port = random.randrange(20_000, 32_000)
        with socket.socket() as listener:
            try:
                listener.bind(("127.0.0.1", port))
                return port
            except OSError:
                continue
