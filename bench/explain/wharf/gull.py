"""gull MODE: what Python programs keep, by way of libraries in C."""
import ctypes
import sqlite3
import sys
import time
import zlib

KEPT = []
LIBC = ctypes.CDLL(None)
LIBC.strdup.restype = ctypes.c_void_p


def store_rows(table, turn):
    table.executemany("insert into rows values (?, ?)", [(turn * 20 + k, "r" * 200) for k in range(20)])
    table.commit()


def copy_label(turn):
    LIBC.strdup(b"label %d " % turn + b"l" * 900)


def open_packer():
    packer = zlib.compressobj(1)
    packer.compress(b"p" * 1000)
    KEPT.append(packer)


def main(mode):
    table = sqlite3.connect(":memory:")
    table.execute("create table rows (id integer primary key, text text)")
    turn = 0
    while True:
        turn += 1
        [str(k) * 30 for k in range(200)]
        if mode == "sqlite":
            store_rows(table, turn)
        if mode == "strdup":
            copy_label(turn)
        if mode == "zlib" and turn % 50 == 0:
            open_packer()
        time.sleep(0.01)


main(sys.argv[1])
