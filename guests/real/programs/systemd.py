"""Daemons that confine themselves: systemd-resolved and systemd-journald with all that their units forbid, in a container."""
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time

import attach
from launch import Skipped, descriptors, until
from programs import _dns
from programs._program import RealProgram

UNITS = {"systemd-resolved": "systemd-resolve", "systemd-journald": "systemd-journal"}
DNS_PORT = 5300
RESOLVED = f"[Resolve]\nDNS=127.0.0.1:{DNS_PORT}\nDomains=~.\nDNSSEC=no\nLLMNR=no\nMulticastDNS=no\nCacheFromLocalhost=yes\n"
QUESTIONS = 2100
# Through D-Bus, through varlink, and messages by both of the journal's sockets.
INSIDE = """
for n in 1 2 3 4 5 6 7 8 9 10 11 12; do resolvectl query --legend=no --cache=no host$n.guest.example; getent ahosts host$n.guest.example; done |
    grep -oE '10\\.[0-9.]+|fd00[0-9a-f:]+' | sort | sha256sum
seq 400 | logger -t guest{round}
seq 400 | systemd-cat -t guest{round}
journalctl --sync
journalctl -q -t guest{round} -o cat | sort | sha256sum
journalctl --rotate
journalctl --verify >/dev/null 2>&1; echo $?
"""
BOOT_SECONDS_MAX = 120


class Program(RealProgram):
    name = "systemd"
    workload = f"resolved ({QUESTIONS} questions, restarts) and journald (800 messages, rotation), confined by their units"
    processes = tuple(UNITS.values())

    def find(self, unpacked):
        if os.geteuid() != 0:
            raise Skipped("a container needs root")
        for tool in ("systemd-nspawn", "nsenter", "ip"):
            if not shutil.which(tool):
                raise Skipped(f"no {tool} on the PATH")
        self.root = unpacked.system("systemd", "systemd-sysv", "dbus", "systemd-resolved", "libnss-resolve")

    def version(self):
        done = subprocess.run(["dpkg-query", f"--admindir={self.root}/var/lib/dpkg", "-W", "-f", "${Version}", "systemd"],
                              capture_output=True, text=True)
        return done.stdout

    def start(self, launch):
        command = ["systemd-nspawn", "--quiet", "--boot", "--volatile=overlay", "--register=no", "--keep-unit",
                   "--private-network", f"--machine=guest-{launch.folder.name.replace('_', '-')}",
                   f"--directory={self.root}", *self.binds(launch)]
        self.container = launch.start(command, is_subject=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        until(self.is_up, "systemd has booted", BOOT_SECONDS_MAX)
        self.network = ["nsenter", f"--net=/proc/{self.leader}/ns/net"]
        # resolved asks nobody while no interface but the loopback has an address.
        for words in ("link add guest0 type veth peer name guest1", "addr add 10.99.0.1/24 dev guest0", "link set guest0 up",
                      "link set guest1 up"):
            subprocess.run([*self.network, "ip", *words.split()], check=True)
        launch.start([*self.network, sys.executable, _dns.__file__, "serve", DNS_PORT], is_subject=False)
        self.rounds = 0
        launch.target = self.pids()["systemd-resolved"]

    def binds(self, launch):
        """The name server's address, and for each unit the environment of the arm."""
        place = pathlib.Path("/usr/local/lib/systemd")
        files = {place / "resolved.conf.d/guest.conf": RESOLVED}
        libraries = [pathlib.Path(file) for file in launch.preload().split(":") if file]
        inside = {file: f"/usr/local/lib/{file.name}" for file in libraries}
        environment = {}
        if libraries:
            # The units' own filters are known to allow the probe's calls: without this it stays off under them.
            environment = dict(launch.arm.environment, LD_PRELOAD=":".join(inside.values()), HIGHWATER_PROBE_FILTERS="99")
        lines = "".join(f"Environment={name}={value}\n" for name, value in environment.items())
        for unit in UNITS:
            # The journal is told to start 5 times in 10 s at most, as every unit.
            files[place / f"system/{unit}.service.d/guest.conf"] = f"[Unit]\nStartLimitBurst=1000\n[Service]\n{lines}"
        binds = [f"--bind-ro={file}:{to}" for file, to in inside.items()]
        for number, (to, text) in enumerate(files.items()):
            file = launch.folder / f"bind{number}"
            file.write_text(text)
            file.chmod(0o644)
            binds.append(f"--bind-ro={file}:{to}")
        return binds

    def is_up(self):
        # systemd-nspawn, PID 1 of the container.
        assert self.container.poll() is None, "systemd-nspawn ended"
        below = attach.descendants(self.container.pid)
        self.leader = below[1] if len(below) > 1 else None
        return self.leader and "running" in self.inside("systemctl is-system-running") and len(self.pids()) == len(UNITS)

    def inside(self, script):
        spaces = [f"--{name}" for name in ("mount", "uts", "ipc", "pid", "net", "cgroup")]
        command = ["nsenter", f"--target={self.leader}", *spaces, "/usr/bin/env", "-i", "PATH=/usr/sbin:/usr/bin:/sbin:/bin",
                   "NO_COLOR=1", "/bin/sh", "-c", script]
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120)
        return done.stdout.strip()

    def pids(self):
        """As seen from here."""
        found = {}
        for pid in attach.descendants(self.container.pid):
            try:
                name = pathlib.Path(f"/proc/{pid}/comm").read_text().strip()
            except OSError:
                continue
            found.update({unit: pid for unit, short in UNITS.items() if short == name})
        return found

    def round(self, launch):
        # Each daemon is watched in turn.
        launch.target = self.pids().get(list(UNITS)[self.rounds % len(UNITS)])
        self.rounds += 1
        started = time.monotonic()
        answers = launch.tool([*self.network, sys.executable, _dns.__file__, "ask", QUESTIONS])
        rate = QUESTIONS / (time.monotonic() - started)
        printed = self.inside(INSIDE.format(round=self.rounds))
        confined = {unit: confinement(pid, self.leader) for unit, pid in self.pids().items()}
        self.inside("systemctl restart systemd-resolved")
        return {"answers": json.loads(answers.out), "inside": printed, "confined": confined, "_rate": rate}

    def stop(self, launch):
        # The journal closes a file that it rotated at some later event.
        open_files = {unit: descriptors(pid, but=".journal") for unit, pid in self.pids().items()}
        self.inside("systemctl stop systemd-resolved")
        state = "".join(f"systemctl show {unit} -p Result -p ExecMainStatus -p NRestarts; " for unit in UNITS)
        results = {"units": self.inside(state), "failed units": self.inside("systemctl --failed --no-legend"),
                   "errors": self.inside("journalctl -q -o cat -p err | sort -u"), "descriptors": open_files}
        # Asks PID 1 of the container to power off.
        os.kill(self.leader, signal.SIGRTMIN + 4)
        return {"exit status": launch.wait(self.container), **results}


def confinement(pid, leader):
    """Its seccomp mode, rights and user, and which namespaces are its own."""
    kept = ("Seccomp:", "NoNewPrivs:", "CapEff:", "Uid:")
    lines = pathlib.Path(f"/proc/{pid}/status").read_text().splitlines()
    spaces = [kind for kind in ("mnt", "user", "ipc", "uts")
              if os.readlink(f"/proc/{pid}/ns/{kind}") != os.readlink(f"/proc/{leader}/ns/{kind}")]
    return [" ".join(line.split()) for line in lines if line.startswith(kept)] + spaces
