"""asyncio, one loop; each request asks a peer over one of four connections. --fault pool: every 2.6 s four requests get
replies that take 220 ms, and the others wait for a connection. --fault lock: every 2.6 s a task holds an asyncio.Lock
over a call of 200 ms on a connection of its own. Healthy: the peer answers at once, and the task calls first.
"""
import asyncio
import os
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../common"))
from service import REQUEST, read_settings, start_load, start_peer  # noqa: E402

settings = read_settings(rate=110, connections=10)
stock = {}
slow = {"due": time.monotonic() + 3, "left": 0}


async def ask_peer(connection, ms):
    reader, writer = connection
    writer.write(REQUEST.pack(1, ms))
    await reader.readexactly(REQUEST.size)


def dial_peer():
    return asyncio.open_connection("127.0.0.1", settings.port + 1)


def hold_ms():
    """Four requests in a row are slow, now and then."""
    if settings.fault == "pool" and time.monotonic() > slow["due"]:
        slow.update(due=time.monotonic() + 2.6, left=4)
    slow["left"] -= 1
    return 220 if slow["left"] >= 0 else 0


async def recount_stock(lock):
    while True:
        await asyncio.sleep(2.6)
        reader, writer = connection = await dial_peer()
        if settings.fault == "lock":
            async with lock:
                await ask_peer(connection, 200)
        else:
            await ask_peer(connection, 200)
            async with lock:
                stock[0] = 1
        writer.close()


async def reserve_item(number, pool, lock):
    connection = await pool.get()
    try:
        await ask_peer(connection, hold_ms())
    finally:
        pool.put_nowait(connection)
    async with lock:
        stock[number % 997] = number


async def main():
    start_peer(settings)
    pool, lock = asyncio.Queue(), asyncio.Lock()
    for _ in range(4):
        pool.put_nowait(await dial_peer())

    async def serve_client(reader, writer):
        while True:
            try:
                request = await reader.readexactly(REQUEST.size)
            except asyncio.IncompleteReadError:
                break
            await reserve_item(REQUEST.unpack(request)[0], pool, lock)
            writer.write(request)
            await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve_client, "127.0.0.1", settings.port, backlog=256)
    recount = asyncio.ensure_future(recount_stock(lock))
    start_load("keep", settings)
    async with server:
        await asyncio.gather(server.serve_forever(), recount)


asyncio.run(main())
