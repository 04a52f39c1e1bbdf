"""An oracle that remembers every answer: a cache without a bound."""
import functools
import time


@functools.lru_cache(maxsize=None)
def foretell(number):
    return "the stars say " + str(number) * 60


def walk():
    return sum(len("step " * (n % 50)) for n in range(400))


turn = 0
while True:
    for i in range(30):
        foretell(turn * 30 + i)
    walk()
    turn += 1
    time.sleep(0.02)
