"""Six phases of commands with other sizes of values against a redis-server on a port, then SHUTDOWN."""

import pathlib
import random
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
from harness import connected  # noqa: E402


def commands(rng, size, count, keys):
    for _ in range(count):
        key = b"k%d" % rng.randrange(keys)
        if rng.random() < 0.1:
            yield (b"DEL", key)
        else:
            yield (b"SET", key, b"v" * rng.randrange(1, size))


def send(sock, batch):
    words = b"".join(
        b"*%d\r\n" % len(command) + b"".join(b"$%d\r\n%s\r\n" % (len(w), w) for w in command)
        for command in batch
    )
    sock.sendall(words)
    answers = 0
    while answers < len(batch):
        answers += sock.recv(1 << 16).count(b"\r\n")


def main():
    sock = connected(sys.argv[1], 10)
    rng = random.Random(3)
    for size, keys in [(100, 60000), (900, 40000), (60, 90000), (3000, 12000), (300, 60000), (40, 90000)]:
        batch = []
        for command in commands(rng, size, 60000, keys):
            batch.append(command)
            if len(batch) == 50:
                send(sock, batch)
                batch = []
        time.sleep(1.5)
    sock.sendall(b"*2\r\n$8\r\nSHUTDOWN\r\n$6\r\nNOSAVE\r\n")


if __name__ == "__main__":
    main()
