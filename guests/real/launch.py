"""Starts the processes of one run of a program, in one arm."""
import dataclasses
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "bench"))
from harness import free_port  # noqa: E402, F401  for the programs

# Of every command that ends by itself.
SECONDS_MAX = 300
# "nobody", for programs that refuse to run as root.
NOBODY = "65534"


class Skipped(Exception):
    """This program cannot run here, for the reason given."""


@dataclasses.dataclass(frozen=True)
class Arm:
    """One way to run a program."""
    name: str
    preloads: bool = False
    attaches: bool = False
    environment: tuple = ()


PLAIN = Arm("plain")
PROBE = Arm("probe", preloads=True)
# A sample for each 4 KiB that are allocated: the slow path is taken in every part of the program.
DENSE = Arm("dense probe", preloads=True, environment=(("HIGHWATER_PROBE_MEAN", "4096"),))
ATTACHED = Arm("attached", attaches=True)
BOTH = Arm("probe and attached", preloads=True, attaches=True)
ARMS = {arm.name: arm for arm in (PLAIN, PROBE, DENSE, ATTACHED, BOTH)}


@dataclasses.dataclass
class Done:
    """How a command ended: its exit status, negative for a signal, or "timeout"."""
    status: object
    out: str
    errors: str


class Launch:
    """`folder` is the run's own, open to all users; what is started here is ended with the run."""

    def __init__(self, arm, folder, probe, allocator=None):
        self.arm, self.folder = arm, pathlib.Path(folder)
        os.chmod(folder, 0o777)
        self.probe = self.lent(probe)
        self.allocator = self.lent(allocator) if allocator else None
        # What the attachments watch: the process that was started last.
        self.target = None
        self.running = []

    def lent(self, file):
        """A copy that every user can read."""
        copy = self.folder / pathlib.Path(file).name
        shutil.copy(file, copy)
        copy.chmod(0o755)
        return str(copy)

    def preload(self):
        files = [self.probe] if self.arm.preloads else []
        return ":".join(files + ([self.allocator] if self.allocator else []))

    def environment(self, extra, is_subject):
        environment = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8",
                       "HOME": str(self.folder), "TMPDIR": str(self.folder), **(extra or {})}
        if is_subject and self.preload():
            environment["LD_PRELOAD"] = self.preload()
            environment.update(self.arm.environment)
            if self.arm.preloads:
                # `explain -- CMD` sets it.
                environment.setdefault("PYTHONPERFSUPPORT", "1")
        return environment

    def start(self, command, environment=None, user=None, is_subject=True, **rest):
        """Starts a process of the program; it is what the attachments watch from now on, unless it is a tool."""
        if user and os.geteuid() == 0:
            ids = [f"--reuid={user}", f"--regid={user}", "--clear-groups"]
            command = ["setpriv", *ids, *command]
        rest.setdefault("stdin", subprocess.DEVNULL)
        rest.setdefault("cwd", self.folder)
        child = subprocess.Popen([str(word) for word in command], env=self.environment(environment, is_subject),
                                 start_new_session=True, **rest)
        self.running.append(child)
        if is_subject:
            self.target = child.pid
        return child

    def run(self, command, environment=None, user=None, seconds=SECONDS_MAX, **rest):
        """Runs a process of the program to its end."""
        with open(self.folder / "stdout", "w+b") as out, open(self.folder / "stderr", "w+b") as errors:
            child = self.start(command, environment, user, stdout=out, stderr=errors, **rest)
            status = self.wait(child, seconds)
            self.target = None
            text = []
            for file in (out, errors):
                file.seek(0)
                text.append(file.read().decode(errors="replace"))
        return Done(status, *text)

    def tool(self, command, environment=None, user=None, seconds=SECONDS_MAX, **rest):
        """Runs a client or a tool, without the probe."""
        if user and os.geteuid() == 0:
            command = ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups", *command]
        rest.setdefault("cwd", self.folder)
        done = subprocess.run([str(word) for word in command], env=self.environment(environment, False),
                              stdin=subprocess.DEVNULL, capture_output=True, timeout=seconds, **rest)
        return Done(done.returncode, done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace"))

    def wait(self, child, seconds=60):
        """The exit status, or "timeout": then its whole session is killed."""
        try:
            status = child.wait(seconds)
        except subprocess.TimeoutExpired:
            status = "timeout"
            self.kill(child)
        if child in self.running:
            self.running.remove(child)
        return status

    def kill(self, child):
        try:
            os.killpg(child.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        child.wait()

    def end(self):
        """Kills what a failed run left."""
        for child in list(self.running):
            self.kill(child)
        self.running.clear()


def until(is_true, what, seconds=60):
    """Waits for a condition that becomes true soon."""
    deadline = time.monotonic() + seconds
    while not is_true():
        if time.monotonic() > deadline:
            raise TimeoutError(f"not within {seconds} s: {what}")
        time.sleep(0.05)


def descriptors(pid, but=None):
    """The kinds of a process's open files, sorted: what differs from run to run, as names with `but`, is left out."""
    kinds = []
    for link in pathlib.Path(f"/proc/{pid}/fd").iterdir():
        try:
            name = os.readlink(link)
        except OSError:
            continue
        if but is None or but not in name:
            kinds.append(name.split(":[")[0])
    return sorted(kind if kind in ("socket", "pipe") or kind.startswith("anon_inode") else "file" for kind in kinds)
