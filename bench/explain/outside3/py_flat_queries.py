# a query engine in pure Python: bounded result cache, full at the start, random keys replaced
import random
import time

cache = {}


def run_query(k):
    rows = [(k, i, "value-%d" % (k * i)) for i in range(60)]
    return sorted(rows, key=lambda r: r[2])


for k in range(2500):
    cache[k] = run_query(k)
t0 = time.time()
while time.time() - t0 < 150:
    for _ in range(12):
        cache[random.randrange(2500)] = run_query(random.randrange(2500))
    time.sleep(0.012)
