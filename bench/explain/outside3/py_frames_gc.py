# importer with the collector off: a failed row keeps its traceback, whose frames keep the row's buffer and the error: a cycle each time.
# The buffers are bytearrays of 2-9 KB, so the bytes come from malloc, through the interpreter
import gc
import random
import time

gc.disable()
t0 = time.time()


class Row:
    def __init__(self, n):
        self.data = bytearray(b"x" * n)
        self.error = None

    def check(self):
        if self.data[3] == 120 and random.random() < 0.3:
            raise ValueError("bad row")
        return len(self.data)


def load(n):
    row = Row(n)
    try:
        return row.check()
    except ValueError as e:
        row.error = e
        return 0


total = 0
while time.time() - t0 < 150:
    for _ in range(9):
        total += load(random.randint(2000, 9000))
    sorted("%05d" % random.randint(0, 99999) for _ in range(40))
    time.sleep(0.012)
