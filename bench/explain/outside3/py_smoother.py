# signal service: a Smoother (C extension) per channel; channels that drop out are forgotten without finish()
import random
import sys
import time

sys.path.insert(0, "bin")
import smooth

t0 = time.time()
channels = [smooth.Smoother() for _ in range(120)]
total = 0
while time.time() - t0 < 150:
    for i in range(len(channels)):
        for _ in range(4):
            channels[i].push(random.random())
        if random.random() < 0.07:
            if random.random() < 0.6:
                total += channels[i].finish()
            channels[i] = smooth.Smoother()
    time.sleep(0.012)
