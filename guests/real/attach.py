"""Attaches `explain` and `stalls` to a running program and detaches them, again and again."""
import collections
import pathlib
import subprocess
import threading
import time

# Of one attachment; an observation takes one second, the names in a large program some more.
SECONDS_MAX = 90
# One in so many is killed in the middle of it, at a moment by chance.
KILL_EVERY = 5

EXPLAIN = ("explain", "--duration", "1s", "--json", "--quiet")
STALLS = ("stalls", "--duration", "1s", "--json")
WAYS = (EXPLAIN, (*STALLS, "--mode", "ebpf"), EXPLAIN, (*STALLS, "--mode", "tracepoints"),
        EXPLAIN, (*STALLS, "--mode", "rootless"))


def descendants(pid):
    """A process and all below it."""
    found, rest = [], [pid]
    while rest:
        found.append(rest.pop())
        try:
            for task in pathlib.Path(f"/proc/{found[-1]}/task").iterdir():
                rest += [int(child) for child in (task / "children").read_text().split()]
        except OSError:
            continue
    return found


class Attachments(threading.Thread):
    """Runs beside a round of the program, until each command was attached `times` times."""

    def __init__(self, launch, highwater, times, random, seconds):
        super().__init__(daemon=True)
        self.launch, self.highwater, self.random = launch, highwater, random
        self.times = times * 2
        self.deadline = time.monotonic() + seconds
        # By command and how it ended: an exit status, or "killed" (by us).
        self.ends = collections.Counter()
        self.faults = []
        self.is_over = threading.Event()

    def run(self):
        try:
            while sum(self.ends.values()) < self.times and time.monotonic() < self.deadline:
                if self.is_over.is_set():
                    return
                self.once(WAYS[sum(self.ends.values()) % len(WAYS)])
        finally:
            self.is_over.set()

    def once(self, way):
        target = self.launch.target
        if target is None:
            time.sleep(0.02)
            return
        # `explain` follows descendants, `stalls` does not.
        pid = target if way is EXPLAIN else self.random.choice(descendants(target))
        command = [self.highwater, *way, "--pid", str(pid)]
        number = sum(self.ends.values())
        kill_after = self.random.uniform(0, 1.5) if number % KILL_EVERY == KILL_EVERY - 1 else None
        child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                 stderr=subprocess.PIPE, text=True, errors="replace")
        try:
            _, errors = child.communicate(timeout=kill_after or SECONDS_MAX)
            end = child.returncode
        except subprocess.TimeoutExpired:
            child.kill()
            _, errors = child.communicate()
            end = "killed" if kill_after else f"killed after {SECONDS_MAX} s"
        self.ends[f"{way[0]}: {end}"] += 1
        # 0 done, 3 too little was seen, 4 the process is not there, or this user may not watch it.
        if end not in (0, 3, 4, "killed"):
            self.faults.append(f"{' '.join(command[1:])}: {end}: {errors[-500:]}")

    def stop(self):
        self.is_over.set()
        self.join()
