"""Dicts of which native code lost the reference, each with a value, and one dict that native code keeps."""
import ctypes
import sys

take = ctypes.pythonapi.Py_IncRef
take.argtypes = [ctypes.py_object]


class Value:
    pass


class Kept:
    pass


def lose(count):
    for _ in range(count):
        lost = {"value": Value()}
        take(lost)


def keep(count):
    table = {at: Kept() for at in range(count)}
    take(table)


lose(1000)
keep(1000)
print("end", flush=True)
for line in sys.stdin:
    print("on", flush=True)
