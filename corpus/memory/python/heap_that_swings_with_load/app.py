"""A rendering service. Jobs in flight follow the load, which swings between nothing and a lot every six seconds."""
import math
import random
import time
from collections import deque

RANDOM = random.Random(12)


class Job:
    def __init__(self, number, fonts):
        self.number = number
        self.font = RANDOM.choice(fonts)
        self.pages = [f"page {page} of job {number} " * 6 for page in range(40)]
        self.options = {"copies": RANDOM.randrange(1, 5), "title": f"job {number}"}


class JobQueue:
    def __init__(self):
        self.jobs = deque()

    def put(self, job):
        self.jobs.append(job)

    def finish_down_to(self, count):
        while len(self.jobs) > count:
            self.jobs.popleft()


def handle_job(queue, number, fonts, in_flight):
    queue.put(Job(number, fonts))
    queue.finish_down_to(in_flight)


def jobs_in_flight(seconds):
    """Between 0 and 1,600, once every six seconds."""
    return int(800 * (1 - math.cos(seconds * 2 * math.pi / 6)))


def main():
    fonts = [{"name": f"font {number}", "glyphs": [f"glyph {number}-{glyph}" for glyph in range(30)]}
             for number in range(6_000)]
    queue, number = JobQueue(), 0
    start = time.monotonic() + 7
    ready = False
    while time.monotonic() < start + 120:
        if not ready and time.monotonic() >= start:
            ready = True
            print("ready", flush=True)
        number += 1
        handle_job(queue, number, fonts, jobs_in_flight(time.monotonic() - start + 7))
        time.sleep(1 / 900)


main()
