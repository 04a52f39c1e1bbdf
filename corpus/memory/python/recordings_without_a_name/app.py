"""A call centre's recorder. A call is recorded to a file in memory; those of calls on hold are kept open."""
import os
import random
import sys
import time

RANDOM = random.Random(1)
END = time.monotonic() + 120


class Recorder:
    def __init__(self, closes):
        self.closes = closes
        self.on_hold = []
        self.customers = {number: "x" * 150 for number in range(80_000)}

    def record(self, number):
        file = os.memfd_create(f"recording-{number % 4}")
        os.write(file, bytes(RANDOM.randrange(4_000, 60_000)))
        if self.closes or number % 4 or len(self.on_hold) > 900:
            os.close(file)
        else:
            self.on_hold.append(file)


def main():
    recorder = Recorder("closed" in sys.argv)
    print("ready", flush=True)
    number = 0
    while time.monotonic() < END:
        number += 1
        recorder.record(number)
        time.sleep(0.008)


main()
