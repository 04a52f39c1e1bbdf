"""Objects of each kind, in known numbers. Prints them as `name count bytes`, then a checksum for each line of input."""
import array
import collections
import functools
import gc
import sys
import threading
from dataclasses import dataclass


class Order:
    def __init__(self, number):
        self.number = number
        self.name = "order %d" % number


class Slots:
    __slots__ = ("left", "right")

    def __init__(self, number):
        self.left = number
        self.right = str(number)


@dataclass
class Point:
    x: int
    y: int


class Text(str):
    pass


class Blob(bytes):
    pass


class Big(int):
    __slots__ = ()


class Bag(list):
    __slots__ = ()


class Table(dict):
    __slots__ = ()


class Group(set):
    __slots__ = ()


class Line(collections.deque):
    __slots__ = ()


class Pair(tuple):
    __slots__ = ()


class Buffer(bytearray):
    __slots__ = ()


class Numbers(array.array):
    __slots__ = ()


class Page:
    pass


class Job:
    pass


class Row:
    pass


class Item:
    pass


class Local:
    pass


class Lost:
    pass


class Shop:
    opened = []

    def __init__(self):
        self.sessions = {}

    def open(self, key):
        self.sessions[key] = Page()


ORDERS = []
SLOTS = []
POINTS = {}
CACHE = {}
QUEUE = collections.deque()
GROUPS = {}
SHOP = Shop()
SIZED = []


def place(number):
    ORDERS.append(Order(number))


def remember(key, value):
    CACHE[key] = value


def make_handler():
    kept = []

    def handle():
        kept.append(Job())

    return handle


HANDLE = make_handler()


@functools.lru_cache(maxsize=None)
def compute(number):
    return Row()


def work(ready):
    mine = [Local() for _ in range(321)]
    ready.set()
    threading.Event().wait()
    return mine


def fill():
    for number in range(12345):
        place(number)
    for number in range(3210):
        SLOTS.append(Slots(number))
    for number in range(2345):
        POINTS[number] = Point(number, -number)
    for number in range(4567):
        remember("key %d" % number, Blob(b"x" * (number % 300)))
    for number in range(1234):
        SHOP.open(number)
    for number in range(765):
        HANDLE()
        compute(number)
    for number in range(4321):
        QUEUE.append(Item())
    for number in range(500):
        GROUPS.setdefault(number % 50, []).append(Text("\u20ac" * number))


def fill_sized():
    for number in range(400):
        SIZED.append(Big(7 ** number))
        SIZED.append(Bag(range(number)))
        SIZED.append(Table((key, key) for key in range(number)))
        SIZED.append(Table((str(key), key) for key in range(number)))
        SIZED.append(Group(range(number)))
        SIZED.append(Line(range(number)))
        SIZED.append(Pair(range(number)))
        SIZED.append(Buffer(number))
        SIZED.append(Numbers("d", range(number)))


def lose():
    for _ in range(25):
        one, other = Lost(), Lost()
        one.other, other.other = other, one


def report():
    found = collections.defaultdict(lambda: [0, 0])
    sized = SIZED + SLOTS + list(CACHE.values()) + [text for group in GROUPS.values() for text in group]
    for thing in sized:
        entry = found[type(thing).__name__]
        entry[0] += 1
        entry[1] += sys.getsizeof(thing)
    sized_names = set(found)
    for thing in gc.get_objects():
        name = type(thing).__name__
        if type(thing).__module__ == "__main__" and name not in sized_names:
            found[name][0] += 1
    for name, (count, size) in sorted(found.items()):
        print(name, count, size)
    print("end", flush=True)


fill()
fill_sized()
gc.collect()
gc.disable()
lose()
READY = threading.Event()
threading.Thread(target=work, args=(READY,), daemon=True).start()
READY.wait()
report()
for line in sys.stdin:
    print(sum(order.number for order in ORDERS) + sum(map(len, CACHE.values())), flush=True)
