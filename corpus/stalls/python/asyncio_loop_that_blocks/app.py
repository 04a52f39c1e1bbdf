"""asyncio, one loop. --fault sleep: a coroutine calls time.sleep(0.16) every 2.4 s. --fault fsync: every 2.7 s a
request appends and syncs for 140 ms in the loop. Healthy: asyncio.sleep, and the syncs in a thread of the
executor.
"""
import asyncio
import os
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../common"))
from service import REQUEST, open_file, read_settings, start_load  # noqa: E402

settings = read_settings(rate=110, connections=10)
file = open_file(settings, "journal")
digests = {}
due = time.monotonic() + 3


def append_journal():
    end, count = time.monotonic() + 0.14, 0
    while time.monotonic() < end:
        os.pwrite(file, b"b" * 4096, count % 512 * 4096)
        os.fsync(file)
        count += 1


def await_rotation():
    time.sleep(0.16)


def digest_request(number):
    digest = number
    for i in range(1200):
        digest = (digest * 33 + i) & 0xFFFFFFFF
    digests[number % 997] = digest


async def rotate_digests():
    while True:
        await asyncio.sleep(2.24)
        if settings.fault == "sleep":
            await_rotation()
        else:
            await asyncio.sleep(0.16)


async def serve_client(reader, writer):
    global due
    while True:
        try:
            request = await reader.readexactly(REQUEST.size)
        except asyncio.IncompleteReadError:
            break
        digest_request(REQUEST.unpack(request)[0])
        if settings.fault != "sleep" and time.monotonic() > due:
            due = time.monotonic() + 2.7
            if settings.fault == "fsync":
                append_journal()
            else:
                asyncio.get_running_loop().run_in_executor(None, append_journal)
        writer.write(request)
        await writer.drain()
    writer.close()


async def main():
    server = await asyncio.start_server(serve_client, "127.0.0.1", settings.port, backlog=256)
    rotation = asyncio.ensure_future(rotate_digests())
    start_load("keep", settings)
    async with server:
        await asyncio.gather(server.serve_forever(), rotation)


asyncio.run(main())
