#!/usr/bin/env python3
"""Every service of services/ with its fault and mended, watched as root and as another user; a row of Markdown for each.

usage: exams.py HIGHWATER [--modes ebpf,rootless] [--only WORD,...] [--times N] [--seconds S] [--rows]
Needs root, a C, C++, Rust, Go and Java compiler (services without theirs are left out, and said). Services run at nice -15,
so that a shared machine's other work is little to them; --rows prints what was found as well.
A duration's error is that of the longest stall of the right cause against the longest wait that the service timed itself, in the
part of the watch that is whole; only services that log "wait" have one.
A row is right when the first one that is not of cpu-starvation (but for hogs) has the cause; its function is right when it is the
named one, and "stack" when that is only on its stack. Mended, rows of cpu-starvation are counted apart: they may be true."""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass

HERE = os.path.dirname(os.path.abspath(__file__))
SOURCES = os.path.join(HERE, "services")
NICE = ["nice", "-n", "-15"]
OTHER_USER = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
BUILDS = {
    "mill": ["cc", "-O2", "-pthread", "-o", "{to}", "mill.c"],
    "granary": ["g++", "-std=c++17", "-O2", "-pthread", "-o", "{to}", "granary.cc"],
    "depot": ["rustc", "--edition", "2024", "-O", "-o", "{to}", "depot.rs"],
    "kiosk": ["go", "build", "-o", "{to}", "kiosk/main.go"],
    "Counter": ["javac", "-d", "{to}", "Counter.java"],
    "tally": ["cp", "tally.py", "{to}"],
    "harbour": ["cc", "-O2", "-pthread", "-o", "{to}", "harbour.c"],
    "quarry": ["cc", "-O2", "-pthread", "-o", "{to}", "quarry.c"],
    "orchard": ["rustc", "--edition", "2024", "-O", "-o", "{to}", "orchard.rs"],
    "dory": ["go", "build", "-o", "{to}", "dory/main.go"],
    "lathe": ["cc", "-O2", "-pthread", "-o", "{to}", "lathe.c"],
    "ferry": ["cc", "-O2", "-pthread", "-o", "{to}", "ferry.c"],
    "smithy": ["cargo", "install", "--quiet", "--locked", "--path", "smithy", "--root", "{to}"],
    "heron": ["go", "build", "-o", "{to}", "heron/main.go"],
    "tannery": ["cc", "-O2", "-pthread", "-o", "{to}", "tannery.c"],
    "saddler": ["cc", "-O2", "-pthread", "-o", "{to}", "saddler.c"],
    "vintner": ["rustc", "--edition", "2024", "-O", "-o", "{to}", "vintner.rs"],
    "weir": ["go", "build", "-o", "{to}", "weir/main.go"],
    "loom": ["cc", "-O2", "-pthread", "-o", "{to}", "loom.c"],
    "fuller": ["go", "build", "-o", "{to}", "fuller/main.go"],
    "spinner": ["cargo", "install", "--quiet", "--locked", "--path", "spinner", "--root", "{to}"],
    "carder": ["cp", "carder.py", "{to}"],
    "apiary": ["cc", "-O2", "-pthread", "-o", "{to}", "apiary.c"],
    "cooper": ["rustc", "--edition", "2024", "-O", "-o", "{to}", "cooper.rs"],
    "potter": ["g++", "-std=c++20", "-O2", "-pthread", "-o", "{to}", "potter.cc"],
    "wright": ["go", "build", "-o", "{to}", "wright/main.go"],
    "scribe": ["cp", "scribe.py", "{to}"],
    "tinker": ["cp", "tinker.js", "{to}"],
    "smelter": ["cc", "-O2", "-pthread", "-o", "{to}", "smelter.c"],
    "sexton": ["go", "build", "-o", "{to}", "sexton/main.go"],
    "farrier": ["rustc", "--edition", "2024", "-O", "-o", "{to}", "farrier.rs"],
}


@dataclass
class Case:
    """`causes`: of the first row, any; empty: the service has no fault. `function`: the culprit's, any; empty: none is asked for."""

    service: str
    kind: str
    causes: tuple
    function: tuple = ()
    flags: tuple = ()
    around: str = ""
    rows_max: int = 1


CASES = [
    Case("mill", "adaptive", ("lock",), ("marlin_compact",)),
    Case("mill", "helper", ("lock",), ("perch_refresh",)),
    Case("mill", "chain", ("lock", "disk"), ("carp_checkpoint", "sturgeon_write_out")),
    Case("mill", "purge", ("allocator",), ("eel_give_back",), ("hold=20",)),
    Case("mill", "fsyncs", ("disk",), ("gudgeon_append",)),
    Case("mill", "leader", ("disk",), ("ruffe_lead", "bream_commit")),
    Case("mill", "faults", ("page-fault",), ("dace_scan",)),
    Case("mill", "plain", ("cpu-starvation",), (), (), "hogs", 2),
    Case("mill", "plain", ("cpu-quota",), (), (), "quota"),
    Case("granary", "mutex", ("lock",), ("rye_rebuild",), (), "hogs", 2),
    Case("granary", "mutex", ("lock",), ("rye_rebuild",)),
    Case("granary", "shared", ("lock",), ("rye_rebuild",)),
    Case("granary", "timed", ("lock",), ("rye_rebuild",)),
    Case("granary", "counting", ("lock",), ("rye_rebuild",)),
    Case("granary", "convoy", ("lock",), ("oat_convoy",)),
    Case("depot", "mutex", ("lock",), ("magpie_settle",)),
    Case("depot", "busy", ("lock",), ("magpie_settle",)),
    Case("depot", "rwlock", ("lock",), ("magpie_settle",)),
    Case("depot", "condvar", ("disk", "lock"), ("magpie_settle", "rook_write_out")),
    Case("depot", "chain", ("lock", "disk"), ("magpie_settle", "rook_write_out")),
    Case("kiosk", "mutex", ("lock",), ("main.oryxSettle",)),
    Case("kiosk", "rwmutex", ("lock",), ("main.oryxSettle",)),
    Case("kiosk", "chain", ("lock", "disk"), ("main.oryxSettle", "main.gnuWriteOut")),
    Case("kiosk", "channel", ("lock",), ("main.oryxSettle",)),
    Case("Counter", "monitor", ("lock",)),
    Case("Counter", "reentrant", ("lock",)),
    Case("tally", "lock", ("lock",)),
    Case("tally", "interpreter", ("lock",)),
    Case("harbour", "post", ("lock",), ("cirrus_report",)),
    Case("harbour", "post", ("lock",), ("cirrus_report",), (), "hogs", 2),
    Case("harbour", "journal", ("lock", "disk"), ("stratus_flush",)),
    Case("harbour", "busy", ("lock",), ("squall_sum",)),
    Case("harbour", "convoy", ("lock",), ("breeze_scan",)),
    Case("harbour", "trim", ("allocator",), ("zephyr_expire",)),
    Case("harbour", "sync", ("disk",), ("foehn_append",)),
    Case("harbour", "faults", ("page-fault",), ("mistral_read",)),
    Case("harbour", "none", ("cpu-starvation",), (), (), "hogs", 2),
    Case("harbour", "none", ("cpu-quota",), (), (), "quota"),
    Case("quarry", "own", ("lock",), ("basalt_blast",), ("pipe",)),
    Case("quarry", "turns", ("lock",), ("basalt_blast",), ("event",)),
    Case("quarry", "writer", ("lock",), ("basalt_blast",), ("ring",)),
    Case("quarry", "sleeper", ("lock",), ("basalt_blast",), ("event",)),
    Case("quarry", "drop", ("allocator",), ("gneiss_drop", "basalt_blast"), ("pipe",)),
    Case("quarry", "commit", ("disk",), ("shale_write", "scribe"), ("ring",)),
    Case("quarry", "commit", ("disk",), ("shale_write", "scribe"), ("pipe",)),
    Case("quarry", "none", ("cpu-quota",), (), ("event",), "quota"),
    Case("orchard", "basket", ("lock",), ("quince_harvest",)),
    Case("orchard", "graft", ("lock",), ("quince_harvest",)),
    Case("orchard", "press", ("lock", "disk"), ("quince_harvest", "medlar_store")),
    Case("orchard", "relay", ("lock",), ("quince_harvest",)),
    Case("dory", "mutex", ("lock",), ("main.pollackSettle",)),
    Case("dory", "rwmutex", ("lock", "disk"), ("main.pollackSettle", "main.whitingSave")),
    Case("dory", "busy", ("lock",), ("main.pollackSettle",)),
    Case("lathe", "net", ("lock",), ("throw_pot", "bisque")),
    Case("lathe", "net", ("lock",), ("throw_pot", "bisque"), (), "hogs", 2),
    Case("lathe", "disk", ("lock", "disk"), ("throw_pot", "bisque")),
    Case("lathe", "nap", ("lock",), ("throw_pot", "bisque")),
    Case("lathe", "cpu", ("lock",), ("throw_pot", "bisque")),
    Case("lathe", "none", ("cpu-starvation",), (), ("heavy",), "hogs", 2),
    Case("lathe", "none", ("cpu-quota",), (), (), "quota"),
    Case("ferry", "two", ("lock",), ("pitch_round",)),
    Case("ferry", "two", ("lock",), ("pitch_round",), (), "hogs", 2),
    Case("ferry", "three", ("lock", "disk"), ("pitch_round", "hemp_save")),
    Case("ferry", "reader", ("lock",), ("pitch_round",)),
    Case("ferry", "permits", ("lock",), ("pitch_round",)),
    Case("ferry", "pool", ("lock", "network"), ("caulk_report",)),
    Case("ferry", "waves", ("disk",), ("resin_append",)),
    Case("ferry", "group", ("disk",), ("tallow_commit",)),
    Case("ferry", "faults", ("page-fault",), ("lead_sound",)),
    Case("ferry", "purge", ("allocator",), ("oakum_unmap", "pitch_round")),
    Case("ferry", "trim", ("allocator",), ("bitumen_tidy",)),
    Case("smithy", "pl", ("lock",), ("tongs_temper",)),
    Case("smithy", "plrw", ("lock",), ("tongs_temper",)),
    Case("smithy", "stdm", ("lock",), ("tongs_temper",)),
    Case("smithy", "hatch", ("lock", "network"), ("tongs_temper",)),
    Case("smithy", "chain", ("lock", "disk"), ("tongs_temper", "borax_write")),
    Case("heron", "mutex", ("lock",), ("main.snipeRound",)),
    Case("heron", "chain", ("lock", "disk"), ("main.snipeRound", "main.egretSave")),
    Case("heron", "cond", ("lock", "network"), ("main.snipeRound",)),
    Case("heron", "gate", ("lock",), ("main.snipeRound",)),
    Case("tannery", "drum", ("lock",), ("aspen_season", "walnut_post")),
    Case("tannery", "drum", ("lock",), ("aspen_season", "walnut_post"), (), "hogs", 2),
    Case("tannery", "lime", ("lock",), ("aspen_season", "chestnut_sort")),
    Case("tannery", "bark", ("lock", "disk"), ("aspen_season", "hazel_save")),
    Case("tannery", "suet", ("allocator",), ("suet_render", "aspen_season")),
    Case("tannery", "wash", ("disk",), ("willow_record",)),
    Case("tannery", "tank", ("disk",), ("oak_commit",)),
    Case("tannery", "soak", ("page-fault",), ("cedar_weigh",)),
    Case("tannery", "rack", ("lock",), ("aspen_season",)),
    Case("tannery", "none", ("cpu-starvation",), (), (), "hogs", 2),
    Case("tannery", "none", ("cpu-quota",), (), (), "quota"),
    Case("saddler", "awl", ("lock",), ("stirrup", "pommel_reload")),
    Case("saddler", "wax", ("lock",), ("strap_log",)),
    Case("saddler", "stitch", ("lock",), ("halter_count", "girth_sum")),
    Case("vintner", "must", ("lock",), ("basilisk_vintage", "phoenix_order")),
    Case("vintner", "must", ("lock",), ("basilisk_vintage", "phoenix_order"), (), "hogs", 2),
    Case("vintner", "cask", ("lock",), ("basilisk_vintage",)),
    Case("vintner", "tun", ("lock",), ("wyvern_bottle",)),
    Case("vintner", "lees", ("lock", "disk"), ("basilisk_vintage", "griffin_write")),
    Case("vintner", "cellar", ("lock",), ("basilisk_vintage",)),
    Case("vintner", "cork", ("disk",), ("chimera_commit",)),
    Case("weir", "post", ("lock",), ("burbotFlush", "lampreySend")),
    Case("weir", "sum", ("lock",), ("burbotFlush",)),
    Case("weir", "sync", ("lock", "disk"), ("burbotFlush", "elverStore")),
    Case("loom", "calico", ("lock",), ("calico_browse",)),
    Case("loom", "tulle", ("network", "lock"), ("tulle_resolve",)),
    Case("loom", "burlap", ("lock", "network"), ("burlap_log",)),
    Case("loom", "gingham", ("lock", "network"), ("gingham_query", "gingham_request"), (), "", 2),
    Case("loom", "muslin", ("cpu-starvation", "on-cpu"), (), (), "hogs", 2),
    Case("loom", "damask", ("page-fault",), ("damask_weigh",), (), "memory"),
    Case("loom", "velvet", ("allocator",), ("velvet_shear",)),
    Case("loom", "serge", ("lock", "cpu-starvation"), (), (), "hogs", 2),
    Case("loom", "chintz", ("lock",), ("chintz_retry",)),
    Case("loom", "organza", ("lock",), ("organza_batch",)),
    Case("loom", "twill", ("lock",), ("twill_count",)),
    Case("fuller", "peer", ("lock",), ("main.(*fuller).felterSend",)),
    Case("spinner", "yarn", ("lock", "disk"), ("distaff_wind",)),
    Case("carder", "sort", ("lock", "runtime")),
    Case("apiary", "clover", ("lock",), ("clover_report",)),
    Case("apiary", "clover", ("lock",), ("clover_report",), (), "hogs", 2),
    Case("apiary", "heather", ("lock", "disk"), ("heather_save",)),
    Case("apiary", "plain", ("cpu-starvation",), (), ("heavy",), "hogs", 2),
    Case("apiary", "plain", ("cpu-quota",), (), (), "quota"),
    Case("apiary", "plain", ("cpu-quota",), (), (), "nested"),
    Case("apiary", "borage", ("allocator",), ("borage_evict",)),
    Case("apiary", "sorrel", ("disk",), ("sorrel_note",)),
    Case("apiary", "yarrow", ("disk",), ("yarrow_seal",)),
    Case("apiary", "fennel", ("page-fault",), ("fennel_pick",)),
    Case("apiary", "mallow", ("lock",), ("mallow_count",)),
    Case("apiary", "dock", ("lock",), ("dock_hold",)),
    Case("apiary", "reed", ("lock",), ("reed_keep",)),
    Case("apiary", "vetch", ("disk",), ("vetch_scan",)),
    Case("cooper", "stave", ("lock",), ("larch_report",)),
    Case("cooper", "hoop", ("lock", "network"), ("willow_make", "hooped")),
    Case("potter", "kiln", ("lock",), ("ochre_sort",)),
    Case("wright", "axle", ("lock",), ("main.rowanSum",)),
    Case("wright", "spoke", ("lock", "disk"), ("main.hollySave",)),
    Case("wright", "felloe", ("lock",), ("main.yewAsk",)),
    Case("scribe", "puts", ("lock", "network")),
    Case("tinker", "syncs", ("disk",)),
    Case("smelter", "ore", ("lock",), ("galena_send",)),
    Case("smelter", "ore", ("lock",), ("galena_send",), ("driven",)),
    Case("smelter", "ore", ("lock",), ("galena_send",), (), "hogs", 2),
    Case("smelter", "slag", ("lock",), ("pyrite_count",)),
    Case("smelter", "slag", ("lock",), ("pyrite_count",), ("driven",)),
    Case("smelter", "slag", ("lock",), ("pyrite_count",), ("hired",)),
    Case("smelter", "bloom", ("lock", "disk"), ("barite_write",)),
    Case("smelter", "bloom", ("lock", "disk"), ("barite_write",), ("hired",)),
    Case("smelter", "flux", ("allocator",), ("cinnabar_drop",)),
    Case("smelter", "flux", ("allocator",), ("cinnabar_drop",), ("driven",)),
    Case("smelter", "sinter", ("disk",), ("quartz_log",)),
    Case("smelter", "matte", ("disk",), ("halite_seal", "sealer")),
    Case("smelter", "dross", ("page-fault",), ("beryl_look",)),
    Case("smelter", "crucible", ("lock",)),
    Case("smelter", "gangue", ("cpu-starvation",), (), (), "hogs", 2),
    Case("smelter", "gangue", ("cpu-quota",), (), (), "quota"),
    Case("sexton", "bell", ("lock",), ("main.marbleToll",)),
    Case("sexton", "bell", ("lock",), ("main.marbleToll",), ("hired",)),
    Case("sexton", "rope", ("lock",), ("main.graniteCount",)),
    Case("sexton", "rope", ("lock",), ("main.graniteCount",), ("hired",)),
    Case("sexton", "vault", ("lock", "disk"), ("main.slateBury",)),
    Case("sexton", "crypt", ("network", "lock"), ("main.chalkGather", "main.fetch")),
    Case("farrier", "anvil", ("lock",), ("kestrel_send",)),
    Case("farrier", "tongs", ("lock",), ("merlin_sort",)),
    Case("farrier", "bellows", ("lock", "disk"), ("osprey_save",)),
    Case("farrier", "rasp", ("disk",), ("harrier_note",)),
    Case("farrier", "hoof", ("lock", "network")),
    Case("smelter", "gangue", ()),
    Case("sexton", "belfry", ()),
    Case("farrier", "stall", ()),
    Case("loom", "linen", ()),
    Case("fuller", "nap", ()),
    Case("spinner", "bobbin", ()),
    Case("apiary", "plain", ()),
    Case("cooper", "bung", ()),
    Case("wright", "hub", ()),
]
UNHARMED = ("plain", "none", "gangue")
TOTALS = ("watched", "right", "with a function", "named", "on the stack", "rows too many", "rows mended", "of starvation mended")


def build(folder):
    """Paths of the services that could be built."""
    built = {}
    for name, command in BUILDS.items():
        to = os.path.join(folder, name)
        if name == "Counter":
            os.mkdir(to)
        command = [word.format(to=to) for word in command]
        try:
            done = subprocess.run(command, cwd=SOURCES, capture_output=True, text=True, check=False)
        except OSError as error:
            print(f"left out: {name}: {error}", file=sys.stderr)
            continue
        if done.returncode == 0:
            built[name] = to
        else:
            print(f"left out: {name}: {done.stderr[-400:]}", file=sys.stderr)
    return built


def started_as(name, path):
    if name == "Counter":
        return ["java", "-cp", path, "Counter"]
    if name in ("smithy", "spinner"):
        return [os.path.join(path, "bin", name)]
    if name == "tinker":
        return ["node", path]
    if name in ("tally", "carder", "scribe"):
        # Not a shim of the shell's, whose process would be watched instead.
        return [os.path.realpath(sys.executable), path]
    return [path]


class Quota:
    """A control group of the first version's tree with 8 ms of CPU in 100."""

    def __init__(self, pid):
        self.folder = f"/sys/fs/cgroup/cpu/highwater-exam-{pid}"
        os.mkdir(self.folder)
        self.write("cpu.cfs_period_us", 100_000)
        self.write("cpu.cfs_quota_us", 8_000)
        self.write("cgroup.procs", pid)

    def write(self, name, value):
        with open(f"{self.folder}/{name}", "w", encoding="ascii") as file:
            file.write(str(value))

    def end(self):
        for _ in range(50):
            try:
                return os.rmdir(self.folder)
            except OSError:
                time.sleep(0.1)


class Nested(Quota):
    """The same quota, of a group above the service's own, which has none."""

    def __init__(self, pid):
        super().__init__(pid)
        self.inner = os.path.join(self.folder, "inner")
        os.mkdir(self.inner)
        with open(os.path.join(self.inner, "cgroup.procs"), "w", encoding="ascii") as file:
            file.write(str(pid))

    def end(self):
        for _ in range(50):
            try:
                os.rmdir(self.inner)
                break
            except OSError:
                time.sleep(0.1)
        super().end()


class Memory:
    """A control group of the first version's tree with 48 MiB of memory, files' pages among them."""

    def __init__(self, pid):
        self.folder = f"/sys/fs/cgroup/memory/highwater-exam-{pid}"
        os.mkdir(self.folder)
        for name, value in (("memory.limit_in_bytes", 48 << 20), ("cgroup.procs", pid)):
            with open(f"{self.folder}/{name}", "w", encoding="ascii") as file:
                file.write(str(value))

    end = Quota.end


class Hogs:
    """Two programs that keep the service's own CPU busy."""

    def __init__(self, pid):
        subprocess.run(["taskset", "-apc", "1", str(pid)], capture_output=True, check=True)
        loop = "while :; do :; done"
        self.all = [subprocess.Popen(NICE + ["taskset", "-c", "1", "sh", "-c", loop]) for _ in range(2)]

    def end(self):
        for one in self.all:
            one.kill()
            one.wait()


AROUND = {"hogs": Hogs, "quota": Quota, "nested": Nested, "memory": Memory}


def longest_ms(log, word, since=0, until=float("inf")):
    """Of the log's lines that begin with this word and lie between the two times, in ms."""
    with open(log, encoding="ascii", errors="replace") as file:
        lines = [line.split() for line in file if line.count(" ") == 3]
    spans = [(int(start), int(end)) for first, _, start, end in lines if first == word]
    return max((end - start for start, end in spans if start >= since and end <= until), default=0) / 1e6


# Of a watch's beginning: symbols are read, and no thread's wait is whole yet.
BEGINNING_NS = 400_000_000


def watch(highwater, mode, case, path, seconds, fixed):
    """One watch: what was found, and the longest stall and wait of the service's own log in ms."""
    folder = tempfile.mkdtemp()
    os.chmod(folder, 0o777)
    log = os.path.join(folder, "truth")
    as_user = OTHER_USER if mode == "rootless" else []
    words = started_as(case.service, path) + [log, str(seconds + 5), case.kind, *case.flags]
    words += ["fixed"] if fixed and case.around in ("", "memory") else []
    with open(os.path.join(folder, "err"), "wb") as errors:
        service = subprocess.Popen(NICE + as_user + words, stdout=errors, stderr=errors, cwd=folder)
    around = None
    try:
        time.sleep(2 if case.service == "Counter" else 1.2)
        if case.around and not (fixed and case.kind in UNHARMED):
            around = AROUND[case.around](service.pid)
        command = [highwater, "stalls", "--pid", str(service.pid), "--mode", mode, "--duration", f"{seconds}s", "--json"]
        begun = time.monotonic_ns()
        done = subprocess.run(NICE + as_user + command, capture_output=True, text=True, check=False, cwd=folder)
        over = time.monotonic_ns()
        if done.returncode != 0:
            return {"error": done.stderr.strip()}, 0, 0
        found = json.loads(done.stdout)
    finally:
        service.kill()
        service.wait()
        if around:
            around.end()
    stall, wait = longest_ms(log, "stall"), longest_ms(log, "wait", begun + BEGINNING_NS, over)
    shutil.rmtree(folder, ignore_errors=True)
    return found, stall, wait


def shown(row):
    culprit = row["culprit"]
    period = f" every {row['period_ns'] / 1e9:.2f} s" if row["period_ns"] else ""
    guess = f" inferred {row['agreeing']}/{row['episodes']}" if row["inferred"] and "agreeing" in row else " inferred" * row["inferred"]
    return (
        f"{row['cause']} n={row['count']} threads={row['threads']} {row['longest_ns'] / 1e6:.1f} ms of {row['total_ns'] / 1e6:.0f}"
        f"{period}{guess} [{culprit['thread']}] {culprit['function']}: {culprit['doing']}"
    )


def judged(case, found):
    """(cause right, function: named, on the stack or not, number of rows beyond the ones asked for)."""
    starved = "cpu-starvation" in case.causes
    rows = [row for row in found["findings"] if starved or row["cause"] != "cpu-starvation"]
    right = bool(rows) and rows[0]["cause"] in case.causes
    if case.around == "hogs" and not starved:
        right = right and found["findings"][0]["cause"] in case.causes
    function = ""
    if right and case.function:
        culprit = rows[0]["culprit"]
        called = culprit["function"] or ""
        if any(name in called for name in case.function[:1]):
            function = "named"
        elif any(name in word for name in case.function for word in [called, *(culprit["stack"] or [])]):
            function = "stack"
    return right, function, max(0, len(rows) - case.rows_max)


def exam(args, case, path, mode):
    """A row of the table."""
    right, named, on_stack, beyond, false_rows, starved, costs, lost, lengths, errors = 0, 0, 0, 0, 0, 0, [], 0, [], []
    for _ in range(args.times):
        for fixed in (False, True) if case.causes else (True,):
            if fixed and case.around == "hogs" and case.kind not in UNHARMED:
                continue
            found, truth, wait = watch(args.highwater, mode, case, path, args.seconds, fixed)
            if "error" in found:
                print(f"    {case.service} {case.kind}: {found['error'][:200]}", file=sys.stderr)
                continue
            checks = found["self_checks"]
            costs.append(100 * checks["own_cpu_ns"] / checks["watched_ns"])
            lost += checks["lost_records"] + checks.get("lost_samples", 0)
            rows = found["findings"]
            if args.rows:
                for row in rows:
                    print(f"    {mode} {'fixed ' if fixed else ''}{shown(row)}", flush=True)
            if fixed:
                false_rows += sum(row["cause"] != "cpu-starvation" for row in rows)
                starved += sum(row["cause"] == "cpu-starvation" for row in rows)
                continue
            is_right, function, more = judged(case, found)
            right += is_right
            named += function == "named"
            on_stack += function == "stack"
            beyond += more
            longest = max((row["longest_ns"] for row in rows if row["cause"] in case.causes), default=0) / 1e6
            lengths.append(f"{longest:.1f}/{truth:.1f}")
            if wait and longest:
                errors.append(f"{100 * (longest - wait) / wait:+.1f} % ({longest - wait:+.1f} ms of {wait:.1f})")
    asked = f"{named} ({on_stack})" if case.function else "-"
    total = args.totals.setdefault(mode, dict.fromkeys(TOTALS, 0))
    for word, count in zip(TOTALS, (args.times * bool(case.causes), right, args.times * bool(case.function), named, on_stack, beyond, false_rows, starved)):
        total[word] += count
    print(
        f"| {' '.join([case.service, case.kind, *case.flags])}{' + ' + case.around if case.around else ''} | {mode} | {right} of {args.times} | {asked} | {beyond} | "
        f"{false_rows} ({starved}) | {', '.join(lengths)} | {', '.join(errors) or '-'} | {min(costs, default=0):.1f} to {max(costs, default=0):.1f} | {lost} |",
        flush=True,
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("highwater", type=os.path.abspath)
    parser.add_argument("--modes", default="ebpf,rootless")
    parser.add_argument("--only", default="")
    parser.add_argument("--times", type=int, default=1)
    parser.add_argument("--seconds", type=int, default=6)
    parser.add_argument("--rows", action="store_true")
    args = parser.parse_args()
    args.totals = {}
    folder = tempfile.mkdtemp()
    os.chmod(folder, 0o755)
    # The other user may not see the folder of the build.
    args.highwater = shutil.copy(args.highwater, folder)
    try:
        built = build(folder)
        with open("/proc/loadavg", encoding="ascii") as load:
            print(f"load average {load.read().split()[0]}, {args.times} watches of {args.seconds} s each\n")
        print("| service | mode | cause right | function named (on the stack) | rows too many | mended: rows (starvation) | longest ms, found/true | error of the wait | own cost, % of a core | lost |")
        print("|---|---|---|---|---|---|---|---|---|---|")
        for case in CASES:
            words = " ".join([case.service, case.kind, *case.flags, case.around])
            if case.service not in built or args.only and not any(word in words for word in args.only.split(",")):
                continue
            for mode in args.modes.split(","):
                exam(args, case, built[case.service], mode)
        for mode, total in args.totals.items():
            print(f"{mode}: " + ", ".join(f"{word} {count}" for word, count in total.items()), flush=True)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
