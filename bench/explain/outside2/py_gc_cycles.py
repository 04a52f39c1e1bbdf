# API worker with gc.disable() "for latency": request and response point at each other and are never collected
import gc
import random
import time

gc.disable()


class Request:
    __slots__ = ("path", "args", "response")

    def __init__(self, i):
        self.path = "/item/%d" % i
        self.args = {"k%d" % j: "value-%d-%d" % (i, j) for j in range(8)}


class Response:
    __slots__ = ("request", "lines")

    def __init__(self, request):
        self.request = request
        self.lines = [str(i) * 4 for i in range(30)]


def handle(i, keep):
    request = Request(i)
    response = Response(request)
    if keep:
        request.response = response
    return len(response.lines)


t0 = time.time()
n = total = 0
recent = []
while time.time() - t0 < 150:
    for _ in range(random.randint(2, 14)):
        n += 1
        total += handle(n, n % 4 != 0)
        recent.append("log line %d %s" % (n, "x" * 300))
    del recent[:-2000]
    time.sleep(0.03)
print(total)
