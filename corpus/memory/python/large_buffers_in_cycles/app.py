"""An importer whose objects form cycles with buffers of some KB, which come from malloc. The first argument says how.

tracebacks: the collector is off, and a failed row keeps its traceback, whose frames keep the row. frozen: the
collector is on, and gc.freeze() keeps the pairs from it.
"""
import gc
import random
import sys
import time


class Row:
    def __init__(self, size):
        self.data = bytearray(b"x" * size)
        self.error = None
        self.other = None

    def check(self):
        if self.data[3] == 120 and random.random() < 0.3:
            raise ValueError("bad row")
        return len(self.data)


def load_one_row(size):
    row = Row(size)
    try:
        return row.check()
    except ValueError as error:
        row.error = error
        return 0


def load_row_pair():
    one, other = Row(3000), Row(3000)
    one.other, other.other = other, one
    return len(one.data)


def main(mode):
    random.seed(7)
    if mode == "tracebacks":
        gc.disable()
    print("ready", flush=True)
    end = time.monotonic() + 120
    turn = 0
    while time.monotonic() < end:
        if mode == "tracebacks":
            for _ in range(9):
                load_one_row(random.randint(2000, 9000))
            sorted("%05d" % random.randint(0, 99999) for _ in range(40))
            time.sleep(0.012)
        else:
            for _ in range(3):
                load_row_pair()
            sum(len("ab" * i) for i in range(300))
            if turn % 10 == 0:
                gc.freeze()
            time.sleep(0.02)
        turn += 1


main(sys.argv[1])
