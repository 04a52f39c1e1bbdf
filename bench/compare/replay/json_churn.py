"""JSON documents made, parsed and cached, with idle gaps: one thread, the same work in every run."""

import json
import random
import time

random.seed(5)
cache = {}
for number in range(16000):
    items = [
        {"key": random.randrange(10**6), "value": "x" * random.randrange(5, 400)}
        for _ in range(random.randrange(5, 60))
    ]
    text = json.dumps({"id": number, "items": items})
    cache[random.randrange(6000)] = json.loads(text) if number % 3 else text
    if number % 2000 == 0:
        time.sleep(0.3)
    if number % 5000 == 4999:
        for key in list(cache)[: len(cache) // 2]:
            del cache[key]
        time.sleep(1.5)
time.sleep(1)
