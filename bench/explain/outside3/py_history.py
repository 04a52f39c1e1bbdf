# monitoring agent: samples (small objects: tuples, floats, strings) go on a list that nobody shortens; the parsing beside it is all freed
import random
import time

history = []
t0 = time.time()
k = 0
while time.time() - t0 < 150:
    line = ",".join("m%d=%f" % (i, random.random()) for i in range(90))
    sample = [(name, float(value)) for name, value in (f.split("=") for f in line.split(","))]
    k += 1
    history.append(sample)
    time.sleep(0.012)
