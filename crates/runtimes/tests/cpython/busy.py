"""Creates and drops objects as fast as it can, keeps one in 200 in a module's dict, and collects garbage often."""
import gc
import sys
import threading


class Session:
    def __init__(self, number):
        self.number = number
        self.myself = self


class Kept:
    def __init__(self, number):
        self.number = number
        self.payload = "payload %d" % number


BASE = [Kept(number) for number in range(5000)]
SESSIONS = {}


def remember(number):
    SESSIONS[number] = Kept(number)


def serve(stop):
    number = 0
    while not stop.is_set():
        number += 1
        Session(number)
        if number % 200 == 0:
            remember(number)
        if number % 2000 == 0:
            gc.collect(1)
    return number


STOP = threading.Event()
THREAD = threading.Thread(target=serve, args=(STOP,))
THREAD.start()
print("end", flush=True)
sys.stdin.readline()
STOP.set()
THREAD.join()
print(sum(kept.number for kept in BASE), flush=True)
