"""A measuring service whose C extension forgets memory. The first argument says which.

rows: the columns of a quoted row. channels: the window of a Smoother that is dropped without finish(). readings: one
reference too many of each bytes object.
"""
import random
import sys
import time

import measure


def import_rows(seconds_left):
    recent_rows = {}
    number = 0
    while seconds_left():
        for _ in range(random.randint(1, 6)):
            number += 1
            quote = b'"' if number % 4 == 0 else b""
            row = quote + b"field%d," % number * random.randint(400, 1800)
            measure.count_columns(row)
            recent_rows[number % 800] = row
            if number == 800:
                print("ready", flush=True)
        time.sleep(0.03)


def smooth_channels(seconds_left):
    channels = [measure.Smoother() for _ in range(120)]
    print("ready", flush=True)
    total = 0
    while seconds_left():
        for i in range(len(channels)):
            for _ in range(4):
                channels[i].push(random.random())
            if random.random() < 0.07:
                if random.random() < 0.6:
                    total += channels[i].finish()
                channels[i] = measure.Smoother()
        time.sleep(0.012)


def encode_readings(seconds_left):
    print("ready", flush=True)
    while seconds_left():
        page = [{"number": i, "name": f"reading {i}"} for i in range(100)]
        for i in range(3):
            measure.encode_reading(i)
        time.sleep(0.02 if page else 0)


def main(mode):
    random.seed(7)
    end = time.monotonic() + 120
    services = {"rows": import_rows, "channels": smooth_channels, "readings": encode_readings}
    services[mode](lambda: time.monotonic() < end)


main(sys.argv[1])
