#!/usr/bin/env python3
"""What the eBPF programs of two builds of highwater take a run, side by side.

    sudo bench/overhead/observe/programs.py BEFORE AFTER [--rounds 7] [--seconds 6] [--only TEXT]

BEFORE and AFTER are `highwater` programs. Each round attaches both, one after the other, to the same workloads, lets
the kernel time the programs (kernel.bpf_stats_enabled), and takes nanoseconds a run of each program. Printed: medians,
and the ratio after/before with the least and the most of the rounds.
"""
import glob
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
from harness import QUIET, compile_c, load_average, parser  # noqa: E402

SWITCHES = r"""
import os, threading, time
def pair():
    (a, b), (c, d) = os.pipe(), os.pipe()
    def back():
        while os.read(a, 1):
            os.write(d, b'x')
    threading.Thread(target=back, daemon=True).start()
    while True:
        os.write(b, b'x')
        os.read(c, 1)
threading.Thread(target=pair, daemon=True).start()
lock = threading.Lock()
def hold():
    while True:
        with lock:
            time.sleep(0.002)
for _ in range(4):
    threading.Thread(target=hold, daemon=True).start()
time.sleep(600)
"""

BLOCKS = r"""
#include <stdlib.h>
#include <time.h>
int main(void) {
    static void *held[4096];
    struct timespec rest = {0, 2000000};
    for (unsigned n = 0;; n++) {
        unsigned at = n * 2654435761u >> 20;
        free(held[at]);
        held[at] = malloc(16 + n % 500);
        if (n % 4096 == 0) nanosleep(&rest, 0);
    }
}
"""


def programs_of(pid):
    """Run time and count of each program that a process holds, by its number."""
    found = {}
    for path in glob.glob(f"/proc/{pid}/fdinfo/*"):
        try:
            fields = dict(line.split(":", 1) for line in open(path).read().splitlines() if ":" in line)
        except OSError:
            continue
        if "run_time_ns" in fields:
            found[int(fields["prog_id"])] = (int(fields["run_time_ns"]), int(fields["run_cnt"]))
    return found


def runs(highwater, arguments, subject, seconds):
    watch = subprocess.Popen([highwater, *arguments, "--pid", str(subject.pid), "--duration", f"{seconds + 3}s"],
                             **QUIET)
    time.sleep(2)
    before = programs_of(watch.pid)
    time.sleep(seconds - 1)
    after = programs_of(watch.pid)
    watch.wait(120)
    took = {number: (ns - before[number][0], count - before[number][1])
            for number, (ns, count) in after.items() if number in before}
    took = [took[number] for number in sorted(took)]
    return [(ns / count, count) for ns, count in took if count > 200]


def main():
    arguments = parser(__doc__)
    arguments.add_argument("before")
    arguments.add_argument("after")
    arguments.add_argument("--rounds", type=int, default=7)
    arguments.add_argument("--seconds", type=float, default=6)
    arguments.add_argument("--only", default="", help="workloads whose name has this text")
    options = arguments.parse_args()
    folder = tempfile.TemporaryDirectory()
    source = pathlib.Path(folder.name, "blocks.c")
    source.write_text(BLOCKS)
    blocks = compile_c(source, source.with_suffix(""), "-O2", "-static")
    stats = pathlib.Path("/proc/sys/kernel/bpf_stats_enabled")
    was = stats.read_text()
    stats.write_text("1")
    print(load_average())
    try:
        for name, command, arguments in (
            ("stalls: switches and wakings", [sys.executable, "-c", SWITCHES], ["stalls", "--budget", "100"]),
            ("explain: static glibc's malloc and free", [blocks], ["explain", "--budget", "100%"]),
        ):
            if options.only not in name:
                continue
            subject = subprocess.Popen(command)
            try:
                time.sleep(0.5)
                took = {options.before: [], options.after: []}
                for _ in range(options.rounds):
                    for highwater in took:
                        took[highwater].append(runs(highwater, arguments, subject, options.seconds))
            finally:
                subject.kill()
                subject.wait()
            report(name, took[options.before], took[options.after])
    finally:
        stats.write_text(was)


def report(name, before, after):
    print(name)
    for number in range(min(len(round) for round in before + after)):
        old, new = ([round[number][0] for round in rounds] for rounds in (before, after))
        ratios = sorted(b / a for a, b in zip(old, new))
        print(f"  program {number + 1}: {statistics.median(old):.0f} -> {statistics.median(new):.0f} ns a run, "
              f"ratio {statistics.median(ratios):.3f} ({ratios[0]:.3f} to {ratios[-1]:.3f}), "
              f"{min(round[number][1] for round in before + after)} runs at least")


if __name__ == "__main__":
    main()
