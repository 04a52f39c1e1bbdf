"""Objects that functions hold which wait, have failed, or belong to another interpreter."""
import asyncio
import gc
import sys
import threading


class Payload:
    pass


class Buffered:
    pass


class Chained:
    def __init__(self, following):
        self.following = following


class Frozen:
    pass


class Captured:
    pass


ERRORS = []
TASKS = set()
FROZEN = [Frozen() for _ in range(400)]
gc.collect()
gc.freeze()


def fail(number):
    payload = Payload()
    raise ValueError(number, payload is None)


def collect_errors():
    for number in range(300):
        try:
            fail(number)
        except ValueError as error:
            ERRORS.append(error)


def make_callback():
    captured = Captured()
    return lambda: captured


def chain():
    head = None
    for _ in range(30000):
        head = Chained(head)
    return head


async def handle():
    buffer = [Buffered()]
    await asyncio.get_running_loop().create_future()
    return buffer


async def main():
    for _ in range(200):
        TASKS.add(asyncio.ensure_future(handle()))
    await asyncio.sleep(0.1)
    print("end", flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.readline)
    print(len(TASKS), flush=True)


collect_errors()
CALLBACKS = [make_callback() for _ in range(250)]
HEAD = chain()
try:
    import _xxsubinterpreters as interpreters
    INNER = interpreters.create()
    interpreters.run_string(INNER, "class Inner: pass\nKEPT = [Inner() for _ in range(777)]\n")
    print("interpreters", flush=True)
except ImportError:
    pass
asyncio.run(main())
