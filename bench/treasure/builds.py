#!/usr/bin/env python3
"""What choosing an allocator costs to build: time and size of each variant of the treasure server.

    bench/treasure/builds.py [VARIANT...] [--jobs 2]
        all but tcmalloc (whose C++ takes many minutes) unless named

For each variant a folder of its own: a clean build of the server and all it depends on, then a second one after the
server's main file changed. CPU seconds are of cargo and all its children; they mind other programs less than the
wall clock does. The binary stays as target/subjects/treasure-VARIANT.
"""
import argparse
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
MAIN = ROOT / "subjects/treasure/src/main.rs"
VARIANTS = ["system", "jemalloc", "mimalloc2", "mimalloc3", "snmalloc", "rpmalloc", "system-meter"]
MIB = 1 << 20


def cpu_s():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def build(folder, variant, jobs):
    """Wall and CPU seconds of one cargo build."""
    features = ",".join(word for word in variant.split("-") if word != "system")
    command = ["cargo", "build", "--release", "--locked", "--quiet", "-j", str(jobs), "-p", "treasure",
               "--target-dir", folder, "--features", features]
    begun, cpu = time.monotonic(), cpu_s()
    done = subprocess.run(command, cwd=ROOT, stderr=subprocess.PIPE, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))} ended with {done.returncode}:\n{done.stderr[-2000:]}")
    return time.monotonic() - begun, cpu_s() - cpu


def stripped_bytes(binary, folder):
    """Size without symbols and lines, or nothing where there is no strip."""
    if not shutil.which("strip"):
        return None
    out = Path(folder) / "stripped"
    subprocess.run(["strip", "-o", out, binary], check=True)
    return out.stat().st_size


def keep(binary, variant):
    """Moved into place whole: a server may be running from the old one."""
    place = TARGET / "subjects" / f"treasure-{variant}"
    place.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy2(binary, place.with_suffix(".new"))
    place.with_suffix(".new").rename(place)


def measure(variant, jobs):
    with tempfile.TemporaryDirectory() as folder:
        clean = build(folder, variant, jobs)
        MAIN.touch()
        again = build(folder, variant, jobs)
        binary = Path(folder) / "release/treasure"
        size, stripped = binary.stat().st_size, stripped_bytes(binary, folder)
        keep(binary, variant)
    small = f"{stripped / MIB:.2f}" if stripped else "-"
    load = os.getloadavg()[0]
    print(f"| {variant} | {clean[0]:.0f} | {clean[1]:.0f} | {again[0]:.1f} | {again[1]:.1f} | {size / MIB:.1f} | {small} "
          f"| {load:.0f} |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("variants", nargs="*", metavar="VARIANT")
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    print("| variant | clean s | clean CPU s | again s | again CPU s | binary MiB | stripped MiB | load average |")
    print("|---|---|---|---|---|---|---|---|")
    for variant in options.variants or VARIANTS:
        measure(variant, options.jobs)


if __name__ == "__main__":
    main()
