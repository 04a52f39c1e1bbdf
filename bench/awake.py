#!/usr/bin/env python3
"""Runs a command while no CPU of this machine goes to sleep.

    bench/awake.py COMMAND [ARGUMENT...]

A virtual machine's idle CPU goes back to the host, and a thread that wakes on it waits until the host gives it back:
where the host has other guests, milliseconds (bench/results/2026-11-22-treasure.md has figures). Latencies of a server
that rests between two requests are then the host's. One loop per CPU under SCHED_IDLE keeps them: it runs only where
nothing else is runnable, and yields at once, in a control group with cpu.idle (root). Without root the loops are a
group of the least weight, and a thread may wait for the end of a loop's slice, up to 5 ms: one in a thousand did.
"""
import os
import signal
import subprocess
import sys
from pathlib import Path


def idle_group():
    """A control group whose members give way to all others (cpu.idle), or None. The loops of one command share it."""
    for root in ("/sys/fs/cgroup", "/sys/fs/cgroup/cpu"):
        group = Path(root) / f"awake-{os.getpid()}"
        try:
            group.mkdir()
        except OSError:
            continue
        try:
            with open(group / "cpu.idle", "r+") as idle:
                idle.write("1")
            return group
        except OSError:
            group.rmdir()
    return None


def stay_awake(cpu, group):
    # A session is a group to the scheduler (autogroup), and a group has a share even if all in it are idle.
    os.setsid()
    try:
        Path("/proc/self/autogroup").write_text("19")
        if group:
            (group / "cgroup.procs").write_text("0")
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
    loops, group = [], idle_group()
    for cpu in os.sched_getaffinity(0):
        pid = os.fork()
        if pid == 0:
            stay_awake(cpu, group)
        loops.append(pid)
    try:
        return subprocess.run(sys.argv[1:]).returncode
    finally:
        for pid in loops:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        if group:
            group.rmdir()


if __name__ == "__main__":
    sys.exit(main())
