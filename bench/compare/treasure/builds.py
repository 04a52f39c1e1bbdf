#!/usr/bin/env python3
"""What choosing an allocator costs to build: time and size of each variant of the treasure server.

    bench/compare/treasure/builds.py [VARIANT...] [--jobs 2]
        all but tcmalloc (whose C++ takes many minutes) unless named

For each variant a folder of its own: a clean build of the server and all it depends on, then a second one after the
server's main file changed. CPU seconds are of cargo and all its children; they mind other programs less than the
wall clock does. The binary stays as target/subjects/treasure-VARIANT.
"""
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from harness import MIB, ROOT, TARGET, children_cpu_s, parser, print_head, print_row  # noqa: E402

MAIN = ROOT / "subjects/treasure/src/main.rs"
VARIANTS = ["system", "jemalloc", "mimalloc2", "mimalloc3", "snmalloc", "rpmalloc", "system-meter"]


def build(folder, variant, jobs):
    """Wall and CPU seconds of one cargo build."""
    features = ",".join(word for word in variant.split("-") if word != "system")
    command = ["cargo", "build", "--release", "--locked", "--quiet", "-j", str(jobs), "-p", "treasure",
               "--target-dir", folder, "--features", features]
    start, cpu = time.monotonic(), children_cpu_s()
    done = subprocess.run(command, cwd=ROOT, stderr=subprocess.PIPE, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))} ended with {done.returncode}:\n{done.stderr[-2000:]}")
    return time.monotonic() - start, children_cpu_s() - cpu


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
    print_row(variant, f"{clean[0]:.0f}", f"{clean[1]:.0f}", f"{again[0]:.1f}", f"{again[1]:.1f}", f"{size / MIB:.1f}",
              small, f"{os.getloadavg()[0]:.0f}")


def main():
    arguments = parser(__doc__)
    arguments.add_argument("variants", nargs="*", metavar="VARIANT")
    arguments.add_argument("--jobs", type=int, default=2)
    options = arguments.parse_args()
    print_head("variant", "clean s", "clean CPU s", "again s", "again CPU s", "binary MiB", "stripped MiB",
               "load average")
    for variant in options.variants or VARIANTS:
        measure(variant, options.jobs)


if __name__ == "__main__":
    main()
