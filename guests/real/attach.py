"""Attaches `explain` and `stalls` to a running program and detaches them, again and again."""
import collections
import itertools
import json
import pathlib
import subprocess
import threading
import time

# Of one attachment; an observation takes two seconds, the names in a large program some more.
SECONDS_MAX = 90
# One in so many is killed in the middle of it, at a moment by chance.
KILL_EVERY = 5

# In one second `explain` has not yet put breakpoints into a linked-in allocator.
EXPLAIN = ("explain", "--duration", "2s", "--json", "--quiet")
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
        self.times = times
        self.deadline = time.monotonic() + seconds
        # By command and how it ended: an exit status, or "killed" (by us).
        self.ends = collections.Counter()
        # Attachments that put breakpoints into the program.
        self.breakpoints = 0
        self.faults = []
        self.is_over = threading.Event()

    def run(self):
        try:
            for way in itertools.cycle(WAYS):
                is_done = min(self.attached("explain"), self.attached("stalls")) >= self.times
                if is_done or self.is_over.is_set() or time.monotonic() > self.deadline:
                    return
                if self.attached(way[0]) < self.times:
                    self.once(way)
        except Exception as error:  # it would pass for attachments without a difference
            self.faults.append(f"{type(error).__name__}: {error}")
        finally:
            self.is_over.set()

    def attached(self, command):
        """How often, without those that found no process any more."""
        return sum(count for end, count in self.ends.items() if end.startswith(command) and not end.endswith(": 4"))

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
        child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                 text=True, errors="replace")
        try:
            out, errors = child.communicate(timeout=kill_after or SECONDS_MAX)
            end = child.returncode
        except subprocess.TimeoutExpired:
            child.kill()
            out, errors = child.communicate()
            end = "killed" if kill_after else f"killed after {SECONDS_MAX} s"
        self.ends[f"{way[0]}: {end}"] += 1
        self.breakpoints += end in (0, 3) and breakpoints(out) > 0
        # 0 done, 3 too little was seen, 4 the process is not there, or this user may not watch it.
        if end not in (0, 3, 4, "killed"):
            self.faults.append(f"{' '.join(command[1:])}: {end}: {errors[-500:]}")

    def text(self):
        """How they ended."""
        ends = ", ".join(f"{end} {count}" for end, count in sorted(self.ends.items()))
        return f"{ends}; {self.breakpoints} with breakpoints"

    def stop(self):
        """What is wrong with the attachments themselves. Where a few were asked for, one of any kind is enough."""
        self.is_over.set()
        self.join()
        watched = {command: self.ends[f"{command}: 0"] + self.ends[f"{command}: 3"] for command in ("explain", "stalls")}
        enough = any if self.times < KILL_EVERY else all
        never = [] if enough(watched.values()) else [f"watched to the end: {watched}"]
        return self.faults + never

    def shortfall(self):
        """What is missing of the attachments that were asked for, in words: the program ended, or time was over."""
        few = {command: self.attached(command) for command in ("explain", "stalls")}
        few = [f"{command} {count}" for command, count in few.items() if count < self.times]
        return f"fewer than {self.times} attachments: {', '.join(few)}" if few else ""


def breakpoints(report):
    """How many a report says there were, of a process or of several."""
    try:
        report = json.loads(report)
    except ValueError:
        return 0
    parts = [report, *(report.get("processes") or [])]
    return sum((part.get("overhead") or {}).get("breakpoints") or 0 for part in parts if isinstance(part, dict))


class ProbeSeen(threading.Thread):
    """Looks for the probe in the program's processes until it is in one: a comparison without it would say nothing."""

    def __init__(self, launch):
        super().__init__(daemon=True)
        self.launch, self.is_over, self.is_seen = launch, threading.Event(), False
        self.start()

    def run(self):
        while not self.is_seen and not self.is_over.wait(0.05):
            target = self.launch.target
            self.is_seen = target is not None and any(map(has_probe, descendants(target)))

    def stop(self):
        self.is_over.set()
        self.join()
        return self.is_seen


def has_probe(pid):
    """Its records are a mapping with a name of their own (`probe/abi`)."""
    try:
        maps = pathlib.Path(f"/proc/{pid}/maps").read_text()
    except OSError:
        return False
    return "/memfd:highwater-probe" in maps or "[anon:highwater-probe" in maps
