"""asyncio with an executor of two threads that every request uses for a quick lookup.

--fault executor: every 2.6 s two jobs that wait 240 ms for the backend occupy both threads. --fault regex: every
2.7 s a thread runs a regular expression for 150 ms, which keeps the GIL. --fault json: every 2.5 s a request
parses a large document in the loop, 120 ms. Healthy: the jobs have an executor of their own, the texts come in
small pieces with pauses.
"""
import asyncio
import json
import os
import re
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../common"))
from service import REQUEST, ask_over, dial_peer, read_settings, start_load, start_peer  # noqa: E402

settings = read_settings(rate=90, connections=10)
lookups = ThreadPoolExecutor(2, "lookup")
reports = ThreadPoolExecutor(2, "report")
TRAILING_SPACE = re.compile(r"\s+$")
digests = {}
due = time.monotonic() + 3


def make_texts():
    """A text for which the expression takes 130 ms, and a short one."""
    size = 1000
    while True:
        times = [time.perf_counter() for _ in range(3) if TRAILING_SPACE.search(" " * size + "x") is None]
        if (times[2] - times[0]) / 2 > 0.13:
            return " " * size + "x", " " * (size // 11) + "x"
        size = size * 11 // 10


def make_documents():
    """A document that takes 100 ms to parse, and a part of it."""
    part = json.dumps([{"k": i, "v": [i, i + 1, "t%d" % i]} for i in range(400)])
    parts = 20
    while True:
        document = "[" + ",".join([part] * parts) + "]"
        start = time.perf_counter()
        json.loads(document)
        if time.perf_counter() - start > 0.1:
            return document, part
        parts = parts * 5 // 4


LONG_TEXT, SHORT_TEXT = make_texts()
DOCUMENT, PART = make_documents()


def query_backend(ms):
    with dial_peer(settings) as peer:
        return ask_over(peer, ms)


def strip_comment(text):
    return TRAILING_SPACE.search(text)


def import_document(text):
    return len(json.loads(text))


def clean_comments():
    while True:
        time.sleep(2.5)
        if settings.fault == "regex":
            strip_comment(LONG_TEXT)
            continue
        for _ in range(40):
            strip_comment(SHORT_TEXT)
            time.sleep(0.01)


def lookup_digest(number):
    digest = number
    for i in range(300):
        digest = (digest * 33 + i) & 0xFFFFFFFF
    digests[number % 997] = digest


async def build_reports():
    loop = asyncio.get_running_loop()
    executor = lookups if settings.fault == "executor" else reports
    while True:
        await asyncio.sleep(2.36)
        await asyncio.gather(*(loop.run_in_executor(executor, query_backend, 240) for _ in range(2)))


async def import_in_parts():
    for _ in range(40):
        import_document(PART)
        await asyncio.sleep(0.01)


async def serve_client(reader, writer):
    global due
    loop = asyncio.get_running_loop()
    while True:
        try:
            request = await reader.readexactly(REQUEST.size)
        except asyncio.IncompleteReadError:
            break
        await loop.run_in_executor(lookups, lookup_digest, REQUEST.unpack(request)[0])
        if settings.fault in ("json", "none") and time.monotonic() > due:
            due = time.monotonic() + 2.5
            if settings.fault == "json":
                import_document(DOCUMENT)
            else:
                asyncio.ensure_future(import_in_parts())
        writer.write(request)
        await writer.drain()
    writer.close()


async def main():
    server = await asyncio.start_server(serve_client, "127.0.0.1", settings.port, backlog=256)
    start_peer(settings)
    background = []
    if settings.fault in ("executor", "none"):
        background.append(asyncio.ensure_future(build_reports()))
    if settings.fault in ("regex", "none"):
        threading.Thread(target=clean_comments, name="comment-cleaner", daemon=True).start()
    start_load("keep", settings)
    async with server:
        await asyncio.gather(server.serve_forever(), *background)


asyncio.run(main())
