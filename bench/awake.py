#!/usr/bin/env python3
"""Runs a command while no CPU of this machine goes to sleep.

    bench/awake.py COMMAND [ARGUMENT...]

A virtual machine's idle CPU goes back to the host, and whoever wakes on it waits until the host gives it back: where the
host has other guests, milliseconds (bench/treasure/README.md has figures). Latencies of a server that rests between two
requests are then the host's. One loop per CPU under SCHED_IDLE keeps them: it runs only where nothing else wants to, and
gives way at once. It takes no time from the command, but its use of power and of a shared core's other half.
"""
import os
import signal
import subprocess
import sys


def stay_awake(cpu):
    # A session is a group to the scheduler (autogroup), and a group has a share even if all in it are idle.
    os.setsid()
    try:
        with open("/proc/self/autogroup", "w") as group:
            group.write("19")
    except OSError:
        pass
    os.sched_setaffinity(0, {cpu})
    os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    parent = os.getppid()
    while os.getppid() == parent:
        for _ in range(1_000_000):
            pass
    os._exit(0)


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    loops = []
    for cpu in os.sched_getaffinity(0):
        pid = os.fork()
        if pid == 0:
            stay_awake(cpu)
        loops.append(pid)
    try:
        return subprocess.run(sys.argv[1:]).returncode
    finally:
        for pid in loops:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


if __name__ == "__main__":
    sys.exit(main())
