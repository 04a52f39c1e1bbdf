"""A fax gateway. Each document is spooled to /dev/shm and sent; one in three is not removed. With `removed` all are."""
import os
import random
import shutil
import sys
import tempfile
import time

RANDOM = random.Random(1)
END = time.monotonic() + 120


class Spool:
    def __init__(self, folder):
        self.folder = folder
        self.count = 0

    def put(self, pages):
        self.count += 1
        path = os.path.join(self.folder, f"document-{self.count}.tiff")
        with open(path, "wb") as file:
            for page in pages:
                file.write(page)
        return path


def render():
    return [bytes(RANDOM.randrange(2_000, 9_000)) for _ in range(3)]


def remove_behind(folder):
    """Removes the folder when the gateway has ended, however that was."""
    reading, writing = os.pipe()
    if (child := os.fork()) == 0:
        os.close(writing)
        os.setsid()
        if os.fork() == 0:
            os.read(reading, 1)
            shutil.rmtree(folder, ignore_errors=True)
        os._exit(0)
    os.waitpid(child, 0)
    os.close(reading)
    return writing


def main():
    folder = tempfile.mkdtemp(prefix="faxes-", dir="/dev/shm")
    kept = remove_behind(folder)
    spool = Spool(folder)
    numbers = {f"+49 30 {number:07d}": "x" * 150 for number in range(80_000)}
    print("ready", flush=True)
    while time.monotonic() < END:
        path = spool.put(render())
        numbers[f"+49 30 {RANDOM.randrange(80_000):07d}"] = "y" * 150
        if "removed" in sys.argv or spool.count % 3:
            os.remove(path)
        time.sleep(0.004)
    os.close(kept)


main()
