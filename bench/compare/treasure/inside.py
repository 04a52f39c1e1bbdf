#!/usr/bin/env python3
"""What each allocator costs inside the treasure server: its share of the CPU, by symbol, and the time of a call.

    bench/compare/treasure/inside.py [VARIANT...] [--seconds 15] [--rate 4700]

4,700 taps a second draw 64 coins each, every one in a block of 8 bytes: the history's 300,000 allocations a second. The
plain binary is sampled by `perf` (cpu-clock, 999 Hz, user space and kernel); symbols of the allocator are told by their
names. The metered binary (VARIANT-meter, when it is there) times one call in 1,024; its quantiles are even within
a bucket, and the clock is in them. Build both: subjects/treasure/build VARIANT VARIANT-meter.
"""
import collections
import os
import re
import subprocess
import sys
import tempfile
import time
import urllib.request

import run as treasure
from harness import QUIET, TARGET, parser, print_head, print_row

VARIANTS = ["system", "jemalloc", "mimalloc2", "mimalloc3", "snmalloc", "rpmalloc"]
# Names of functions that are the allocator's. Static ones of jemalloc have no prefix, so its modules are listed.
OF = {
    "system": r"^(_int_(malloc|free|realloc|memalign)|__?libc_(malloc|free|calloc|realloc|memalign)|malloc|free|cfree"
              r"|calloc|realloc|aligned_alloc|tcache_|malloc_consolidate|unlink_chunk|sysmalloc|systrim|arena_get"
              r"|alloc_perturb"
              r"|_mid_memalign|ptmalloc|grow_heap|shrink_heap|sbrk|__default_morecore|__lll_lock_wa(it|ke)_private)",
    "jemalloc": r"(_rjem|^je_|^(arena|tcache|tsd|edata|extent|ehooks|eset|emap|rtree|base|bin|cache_bin|ckh|decay"
                r"|pa|pac|hpa|hpdata|psset|sec|slab|sz|background_thread|malloc_|imalloc|iallocztm|ifree|isfree"
                r"|isdalloct|je_|jemalloc|rallocx|sdallocx|mallocx|do_rallocx|large|prof|san|stats|ticker|witness|pages"
                r"|os_pages|nstime|counter|thread_tcache|te_|thread_event|event)_)",
    "mimalloc2": r"^_?mi_|mi_",
    "mimalloc3": r"^_?mi_|mi_",
    "snmalloc": r"snmalloc|^sn_",
    "rpmalloc": r"^_?rp|_rpmalloc|^_memory_|^heap_|^span_|^rpm",
}
# Of those, waiting for each other; and locks of the C library, whose caller is not known without a stack.
LOCK = re.compile(r"lock|mutex|spin|futex", re.I)
NOT_LOCK = re.compile(r"block", re.I)
LIBC_LOCK = re.compile(r"pthread_mutex|lll_lock|futex")
SAMPLES_HZ = 999
PATIENCE_NS = 10_000


def perf(server, seconds, load):
    """Samples by symbol, of the server's threads, while the load plays."""
    with tempfile.TemporaryDirectory() as folder:
        data = os.path.join(folder, "perf.data")
        time.sleep(3)
        subprocess.run(["perf", "record", "-q", "-e", "cpu-clock", "-F", str(SAMPLES_HZ), "-p", str(server.process.pid),
                        "-o", data, "--", "sleep", str(seconds)], check=True, **QUIET)
        script = ["perf", "script", "-i", data, "-F", "ip,sym,dso"]
        text = subprocess.run(script, check=True, capture_output=True, text=True).stdout
    counts = collections.Counter()
    for line in text.splitlines():
        found = re.match(r"\s*[0-9a-f]+ (.+) \((.*)\)$", line)
        if found:
            counts[(re.sub(r"\+0x[0-9a-f]+$", "", found[1]), found[2])] += 1
    load.wait()
    return counts


def start_load(server, options, seconds):
    command = [TARGET / "release/treasure-load", "--server", f"127.0.0.1:{server.port}", "--players", "200",
               "--rate", options.rate, "--duration", f"{seconds}s"]
    return subprocess.Popen([str(word) for word in command], preexec_fn=server.place_load, **QUIET)


def shares(counts, variant):
    """Shares of all samples: the allocator, its locks, the C library's locks, the kernel; and the busiest symbols."""
    family = variant.split("-")[0]
    mine = re.compile(OF[family])
    all_samples = sum(counts.values()) or 1
    inside = {key: count for key, count in counts.items() if mine.search(key[0]) and "kernel" not in key[1]}
    locks = sum(c for (name, _), c in inside.items() if LOCK.search(name) and not NOT_LOCK.search(name))
    libc = sum(c for (name, dso), c in counts.items() if LIBC_LOCK.search(name) and "kernel" not in dso)
    kernel = sum(c for (_, dso), c in counts.items() if "kernel" in dso)
    busiest = sorted(inside.items(), key=lambda item: -item[1])[:3]
    words = ", ".join(f"`{name.split('(')[0][:40]}` {100 * count / all_samples:.1f}" for (name, _), count in busiest)
    percent = [100 * part / all_samples for part in (sum(inside.values()), locks, libc, kernel)]
    return percent, words, all_samples


def buckets(text, name):
    """(upper bound in ns, cumulative count) of a histogram of the metrics page."""
    found = re.findall(rf'highwater_alloc_{name}_seconds_bucket\{{le="([0-9.e+-]+)"\}} (\d+)', text)
    return [(float(upper) * 1e9, int(count)) for upper, count in found]


def quantile(of, share):
    """Even within a bucket."""
    wanted = share * of[-1][1] if of else 0
    below, lower = 0, 0.0
    for upper, count in of:
        if count >= wanted and count > below:
            return lower + (upper - lower) * (wanted - below) / (count - below)
        below, lower = count, upper
    return float("nan")


def mean(of):
    """From the middles of the buckets, of the calls within 10 us: longer ones waited for a CPU."""
    below, lower, total = 0, 0.0, 0.0
    for upper, count in of:
        if upper > PATIENCE_NS:
            break
        total += (count - below) * (lower + upper) / 2
        below, lower = count, upper
    return total / below if below else float("nan")


def metrics(server):
    with urllib.request.urlopen(f"http://127.0.0.1:{server.http}/metrics", timeout=10) as answer:
        return answer.read().decode()


def timed(options, variant):
    """Allocations a second, mean and p99 of a call, from the metered binary."""
    options.binary = variant if variant.endswith("-meter") else f"{variant}-meter"
    if not (TARGET / "subjects" / f"treasure-{options.binary}").exists():
        return ["-"] * 4
    with treasure.Server(options, "--spray", "64") as server:
        load = start_load(server, options, options.seconds)
        time.sleep(3)
        start, first = time.monotonic(), metrics(server)
        time.sleep(options.seconds - 5)
        took, last = time.monotonic() - start, metrics(server)
        load.wait()
    total = [int(re.search(r"highwater_alloc_allocations_total (\d+)", text)[1]) for text in (first, last)]
    before, after = buckets(first, "allocation"), buckets(last, "allocation")
    # Buckets without a call are not printed: what is below them counts for them.
    old = [max((count for upper, count in before if upper <= bound), default=0) for bound, _ in after]
    of = [(upper, count - less) for (upper, count), less in zip(after, old)]
    rate = f"{(total[1] - total[0]) / took / 1000:.0f} k"
    return [rate, *(f"{ns:.0f}" for ns in (mean(of), quantile(of, 0.5), quantile(of, 0.99)))]


def measure(options, variant):
    options.binary = variant
    with treasure.Server(options, "--spray", "64") as server:
        load = start_load(server, options, options.seconds + 6)
        counts = perf(server, options.seconds, load)
        cpu = server.cpu_s() / (options.seconds + 6)
    (inside, locks, libc, kernel), words, samples = shares(counts, variant)
    print_row(variant, *timed(options, variant), f"{cpu:.2f}", f"{inside:.1f}", f"{locks:.2f}", f"{libc:.2f}",
              f"{kernel:.0f}", words, samples)
    if options.all:
        for (name, dso), count in counts.most_common(40):
            print(f"    {count:6} {name[:90]} {os.path.basename(dso)}")


def main():
    arguments = parser(__doc__)
    arguments.add_argument("variants", nargs="*", metavar="VARIANT")
    arguments.add_argument("--seconds", type=int, default=15)
    arguments.add_argument("--rate", type=int, default=4700)
    arguments.add_argument("--net", default="tokio", choices=["tokio", "uring"])
    arguments.add_argument("--threads", type=int, default=2)
    arguments.add_argument("--first", action="store_true", help="server and load ahead of all ordinary programs")
    arguments.add_argument("--apart", action="store_true", help="server and load on CPUs of their own")
    arguments.add_argument("--all", action="store_true", help="the 40 busiest symbols as well")
    arguments.set_defaults(what="inside")
    options = arguments.parse_args()
    if subprocess.run(["perf", "--version"], capture_output=True).returncode != 0:
        sys.exit("SKIPPED: there is no perf on the PATH")
    print_head("variant", "allocations/s", "mean ns", "p50 ns", "p99 ns", "cores", "allocator %", "its locks %",
               "libc locks %", "kernel %", "busiest of it, %", "samples")
    for variant in options.variants or VARIANTS:
        measure(options, variant)


if __name__ == "__main__":
    main()
