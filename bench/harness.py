"""What the benchmarks share: places, C programs, ports, child processes, /proc, and how figures are printed."""
import argparse
import os
import pathlib
import random
import resource
import socket
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
TARGET = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
HIGHWATER = TARGET / "release/highwater"
PROBE = TARGET / "release/libhighwater_probe.so"
RESULTS = ROOT / "bench/results"
MIB = 1 << 20
QUIET = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
SHARED = ("-O2", "-shared", "-fPIC")
BOOTSTRAPS = 4000


def parser(doc):
    """Prints the script's docstring as it stands."""
    return argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)


def compile_c(source, program, *flags, libraries=()):
    subprocess.run(["cc", *(flags or ("-O2",)), "-o", str(program), str(source), *libraries], check=True)
    return str(program)


def free_port():
    """Below the ephemeral range, so that no connection of another program takes it in between."""
    while True:
        port = random.randrange(20_000, 32_000)
        with socket.socket() as listener:
            try:
                listener.bind(("127.0.0.1", port))
                return port
            except OSError:
                continue


def connected(port, seconds=60):
    """A connection to a server that may still be starting."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            return socket.create_connection(("127.0.0.1", int(port)))
        except OSError:
            if time.monotonic() > deadline:
                sys.exit(f"no server listens on port {port}")
            time.sleep(0.05)


def stop(*processes):
    for process in processes:
        process.terminate()
    for process in processes:
        process.wait()


def cpu_s(pid):
    """User and system time of a process and of the threads that it has had; the kernel's tick is 10 ms."""
    fields = stat_fields(pid)
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def stat_fields(pid):
    """/proc/PID/stat from the state on: field 3 of proc(5) is the first."""
    return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()


def threads_cpu_ns(pid):
    """CPU time of the threads that are alive, in nanoseconds."""
    threads = pathlib.Path(f"/proc/{pid}/task").glob("*/schedstat")
    return sum(int(thread.read_text().split()[0]) for thread in threads)


def children_cpu_s():
    """Of all children that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def status_bytes(pid, name):
    """A size of /proc/PID/status (VmRSS, RssAnon, VmHWM), or None once the process has ended."""
    try:
        text = pathlib.Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return None
    return next((int(line.split()[1]) << 10 for line in text.splitlines() if line.startswith(name + ":")), None)


def load_average():
    return f"load average {os.getloadavg()[0]:.1f}"


def load_averages():
    return "load average {:.0f}, {:.0f}, {:.0f}".format(*os.getloadavg())


def processor():
    """The model's name."""
    lines = pathlib.Path("/proc/cpuinfo").read_text().splitlines()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), "unknown processor")


def spread(values, form="{:.2f}"):
    """Median [least to most]; a single value stands alone."""
    middle = form.format(statistics.median(values))
    return middle if len(values) == 1 else f"{middle} [{form.format(min(values))} to {form.format(max(values))}]"


def quartiles(values):
    """(lower quartile, median, upper quartile)"""
    return statistics.quantiles(values, n=4) if len(values) > 1 else [*values] * 3


def interval(groups):
    """Mean over groups of each group's median, with the 95 % interval of a bootstrap over groups."""
    medians = [statistics.median(values) for values in groups]
    means = sorted(statistics.mean(random.choices(medians, k=len(medians))) for _ in range(BOOTSTRAPS))
    return statistics.mean(medians), means[int(0.025 * BOOTSTRAPS)], means[int(0.975 * BOOTSTRAPS)]


def print_row(*cells):
    print("| " + " | ".join(map(str, cells)) + " |", flush=True)


def print_head(*names, right=()):
    """The head of a Markdown table; columns whose names are in `right` are numbers."""
    print_row(*names)
    print("|" + "".join("--:|" if name in right else "---|" for name in names))
