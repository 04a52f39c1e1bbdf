"""A gateway that measures its requests. One of the labels is the full path, so every order makes a new time series."""
import random
import time

RANDOM = random.Random(6)
BOUNDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)


class Histogram:
    def __init__(self, labels):
        self.labels = dict(labels)
        self.counts = [0] * (len(BOUNDS) + 1)
        self.sum = 0.0

    def observe(self, seconds):
        slot = sum(seconds > bound for bound in BOUNDS)
        self.counts[slot] += 1
        self.sum += seconds


class Registry:
    def __init__(self):
        self.families = {}

    def histogram_of(self, family, **labels):
        series = self.families.setdefault(family, {})
        key = tuple(sorted(labels.items()))
        if key not in series:
            series[key] = Histogram(key)
        return series[key]


METRICS = Registry()


class Route:
    def __init__(self, number):
        self.prefix = f"/service-{number % 300}/v{number % 4}"
        self.backends = [f"10.{number % 256}.{host}.7:8080" for host in range(6)]
        self.headers = {"x-route": str(number), "x-owner": f"team {number % 60}"}


def record_latency(method, path, status, seconds):
    METRICS.histogram_of("request_seconds", method=method, path=path, status=status).observe(seconds)


def handle_request(routes):
    route = RANDOM.choice(routes)
    path = f"{route.prefix}/orders/{RANDOM.randrange(10**9)}/items"
    status = "200" if RANDOM.random() < 0.98 else "502"
    record_latency(RANDOM.choice(("GET", "POST")), path, status, RANDOM.expovariate(20))
    return {"path": path, "backend": RANDOM.choice(route.backends)}


def main():
    routes = [Route(number) for number in range(20_000)]
    print("ready", flush=True)
    end = time.monotonic() + 120
    while time.monotonic() < end:
        handle_request(routes)
        time.sleep(1 / 900)


main()
