"""A service that keeps what C modules of the standard library allocate. The first argument says what.

sqlite: the rows of a database in memory. zlib: compressors in a list. mmap: anonymous mappings in a list. bytes:
uploads in a queue whose reader is too slow.
"""
import collections
import mmap
import sqlite3
import sys
import threading
import time
import zlib

kept_objects = []
upload_queue = collections.deque()


def store_rows(database, turn):
    database.executemany("insert into rows values (?, ?)", [(turn * 20 + k, "r" * 200) for k in range(20)])
    database.commit()


def open_compressor():
    compressor = zlib.compressobj(1)
    compressor.compress(b"p" * 1000)
    kept_objects.append(compressor)


def map_segment():
    segment = mmap.mmap(-1, 100_000, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    segment.write(b"d" * 100_000)
    kept_objects.append(segment)


def receive_upload():
    upload_queue.append(bytearray(4000))


def read_uploads():
    while True:
        if upload_queue:
            upload_queue.popleft()
        time.sleep(0.03)


def main(mode):
    database = sqlite3.connect(":memory:")
    database.execute("create table rows (id integer primary key, text text)")
    if mode == "bytes":
        threading.Thread(target=read_uploads, daemon=True).start()
    print("ready", flush=True)
    end = time.monotonic() + 120
    turn = 0
    while time.monotonic() < end:
        turn += 1
        [str(k) * 30 for k in range(200)]
        if mode == "sqlite":
            store_rows(database, turn)
        if mode == "zlib" and turn % 50 == 0:
            open_compressor()
        if mode == "mmap" and turn % 10 == 0:
            map_segment()
        if mode == "bytes":
            receive_upload()
        time.sleep(0.01)


main(sys.argv[1])
