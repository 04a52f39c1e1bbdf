"""What a run may leave behind: breakpoints, processes, crashes in the kernel's log."""
import ctypes
import os
import pathlib
import re
import select
import signal
import time

PR_SET_CHILD_SUBREAPER = 36
# Orphans that end by themselves get this long.
SECONDS_LEFT = 3
CRASH = re.compile(r"segfault|general protection|traps: |trap |type=1326|Out of memory|uprobe|BUG:|WARNING:")


def adopt_orphans():
    """Makes this process the parent of its programs' orphans, so that it sees them end."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def reap_orphans():
    """The names of processes that go on after their run; they are killed."""
    deadline = time.monotonic() + SECONDS_LEFT
    while pids := own_children():
        if time.monotonic() > deadline:
            names = sorted(name_of(pid) for pid in pids)
            for pid in pids:
                os.kill(pid, signal.SIGKILL)
            for pid in pids:
                os.waitpid(pid, 0)
            return names
        time.sleep(0.02)
    return []


def own_children():
    children = []
    for task in pathlib.Path("/proc/self/task").iterdir():
        try:
            children += [int(pid) for pid in (task / "children").read_text().split()]
        except OSError:
            # A thread of this process that has just ended: its children are another thread's now.
            continue
    return [pid for pid in children if os.waitpid(pid, os.WNOHANG)[0] == 0]


def name_of(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return "?"


def changed_code(pid):
    """Files whose code in this process is not what is on disk, as breakpoints make it."""
    changed = set()
    try:
        maps = pathlib.Path(f"/proc/{pid}/maps").read_text()
        with open(f"/proc/{pid}/mem", "rb") as memory:
            for line in maps.splitlines():
                area = line.split(None, 5)
                if len(area) == 6 and "x" in area[1] and area[5].startswith("/") and differs(pid, memory, area):
                    changed.add(area[5])
    except OSError:
        pass
    return sorted(changed)


def differs(pid, memory, area):
    start, end = (int(address, 16) for address in area[0].split("-"))
    try:
        with open(f"/proc/{pid}/map_files/{area[0]}", "rb") as file:
            file.seek(int(area[2], 16))
            on_disk = file.read(end - start)
        memory.seek(start)
        return memory.read(len(on_disk)) != on_disk
    except OSError:
        return False


class KernelLog:
    """Messages since it was opened that tell of a crash of programs with the given names."""

    def __init__(self):
        try:
            self.file = os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK)
            os.lseek(self.file, 0, os.SEEK_END)
        except OSError:
            self.file = None

    def crashes(self, names):
        found = []
        while self.file is not None and select.select([self.file], [], [], 0)[0]:
            try:
                text = os.read(self.file, 8192).decode(errors="replace").split(";", 1)[-1].strip()
            except OSError:
                # Lines were overwritten before they were read.
                continue
            if CRASH.search(text) and any(name in text for name in names):
                found.append(text)
        return found

    def close(self):
        if self.file is not None:
            os.close(self.file)
