"""CPython: large buffers (malloc) or small objects (the interpreter's arenas) that are kept for ever."""
import sys
import time

KEPT = []


def keep_buffer(size):
    KEPT.append(bytearray(size))


def keep_record(number):
    KEPT.append({"number": number, "words": [str(number), str(number + 1)]})


def churn():
    return [str(i) * 3 for i in range(500)]


which = sys.argv[1] if len(sys.argv) > 1 else "buffers"
number = 0
while True:
    churn()
    for _ in range(20):
        number += 1
        if which == "buffers":
            keep_buffer(2000)
        elif which == "records":
            for each in range(10):
                keep_record(number * 10 + each)
    time.sleep(0.02)
