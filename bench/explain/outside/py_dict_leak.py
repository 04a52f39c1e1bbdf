# web app: request log kept in a module-level dict, never expired
import time, random

t0 = time.time()
SEEN = {}
recent = [None] * 4000


class Request:
    def __init__(self, n):
        self.id = n
        self.headers = {f"h{i}": "v" * random.randint(10, 60) for i in range(6)}
        self.body = "b" * random.randint(300, 2000)


def remember(req):
    SEEN[req.id] = (req.headers, [req.id, str(req.id) * 5])


n = 0
while time.time() - t0 < 150:
    for _ in range(3):
        n += 1
        r = Request(n)
        recent[n % 4000] = r
        if n % 2:
            remember(r)
    time.sleep(0.012)
