# A choir: voices that know each other, and a collector that is told that what there is now will stay.
import gc
import time


class Voice:
    def __init__(self, n):
        self.notes = bytes([n % 256]) * 3000
        self.other = None


def pair_voices(n):
    one, other = Voice(n), Voice(n + 1)
    one.other, other.other = other, one
    return len(one.notes)


def sing():
    return sum(len("la" * i) for i in range(300))


for n in range(10**9):
    for i in range(3):
        pair_voices(n + i)
    sing()
    if n % 10 == 0:
        gc.freeze()
    time.sleep(0.02)
