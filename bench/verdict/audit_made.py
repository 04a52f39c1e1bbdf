"""Made experiments for the exam of the audit: clean ones of many shapes, the faults that are put into them, and the
harmless things that look like faults. Everything is random by a seed; `audit.py` asks the questions.

Long because each fault and each harmless twin is a few lines, and both are read side by side.
"""

import copy
import math

MIB = 1024.0
EPOCH = 1_790_000_000


class Process:
    """One process: rows of (seconds, arm, rss in KiB), and facts beside them by column name."""

    def __init__(self, name, arm):
        self.name, self.arm, self.rows, self.facts = name, arm, [], {}


class Made:
    """An experiment: processes, what is true of the arms, and how it is written."""

    def __init__(self):
        self.processes, self.columns, self.flags = [], [], []
        self.interval, self.looks, self.labels = 60.0, 100, {}
        self.anew = False
        # The column of the readings, and KiB in one of it; arms that stand in other files, with since when.
        self.value, self.groups = ("rss_kib", 1.0), []

    def arms(self):
        return list(dict.fromkeys(p.arm for p in self.processes))

    def of(self, arm):
        return [p for p in self.processes if p.arm == arm]

    def end(self):
        return self.interval * (self.looks - 1)


def level_of(kind, part, rng_phase, hours):
    """Level over the part of the run, 1 at the beginning, and the truth: grows or not."""
    if kind == "leak":
        return 1.0 + 0.6 * part
    if kind == "fill":
        return 1.0 + 0.5 * (1.0 - math.exp(-part / 0.08))
    if kind == "daily":
        return 1.0 + 0.12 * math.sin(2 * math.pi * (hours / 24.0 + rng_phase))
    return 1.0


def clean(rng):
    """Two to four arms of three to ten processes; levels, spreads, intervals, grains and ages vary."""
    made = Made()
    made.interval = rng.choice([30.0, 60.0, 300.0, 600.0, 3600.0])
    made.looks = rng.choice([60, 90, 140, 220, 300])
    made.columns = ["hwm"] if rng.random() < 0.4 else []
    names = rng.sample(["glibc", "jemalloc", "mimalloc", "tcmalloc", "blue", "green", "v1.2", "v1.3"], rng.randint(2, 4))
    spread = rng.choice([0.02, 0.05, 0.15])
    noise, memory = rng.choice([0.003, 0.01, 0.03]), rng.choice([0.0, 0.6, 0.9])
    grain = rng.choice([4.0, 4.0, 1024.0])
    jitter = rng.choice([0.0, 0.0, 0.3]) * made.interval
    load = [0.0]
    for _ in range(made.looks):
        load.append(0.8 * load[-1] + 0.6 * rng.gauss(0.0, 1.0))
    for arm in names:
        kind = rng.choice(["flat", "flat", "fill", "leak"])
        made.labels[arm] = kind
        level = 80 * MIB * math.exp(rng.uniform(0.0, 3.0))
        for at in range(rng.randint(3, 10)):
            process = Process(f"{arm}-{at}", arm)
            own, drift, phase = level * math.exp(rng.gauss(0.0, spread)), 0.0, rng.random()
            offset = rng.uniform(0.0, jitter)
            for look in range(made.looks):
                drift = memory * drift + math.sqrt(1 - memory**2) * rng.gauss(0.0, 1.0)
                t = made.interval * look + offset
                shape = level_of(kind, look / made.looks, phase, t / 3600.0)
                kib = own * shape * (1.0 + noise * drift + 0.004 * load[look])
                process.rows.append([t, arm, max(grain, grain * round(kib / grain))])
            made.processes.append(process)
    return made


# What is done to an experiment. Each fault says which check must speak, of whom, and whether it refuses.


def told(check, arms=(), processes=(), refuses=False):
    return {"check": check, "arms": set(arms), "processes": set(processes), "refuses": refuses}


def at_part(made, rng, lo, hi):
    return made.interval * round(made.looks * rng.uniform(lo, hi))


def reborn(rows, since, rng, low=0.3):
    """From `since` on the process begins anew, below where it was, and comes back within a fifth of the run."""
    end = rows[-1][0]
    floor = low * rng.uniform(0.7, 1.2)
    for row in rows:
        if row[0] >= since:
            part = (row[0] - since) / max(end * 0.2, 1.0)
            row[2] *= 1.0 - (1.0 - floor) * math.exp(-3.0 * part)


def marks(made):
    for p in made.processes:
        p.births = getattr(p, "births", [])


def move(made, rng):
    """A third to half of the processes of one arm go to another, without a restart."""
    a, b = rng.sample(made.arms(), 2)
    who = made.of(a)[: max(1, len(made.of(a)) * rng.randint(2, 4) // 8)]
    since = at_part(made, rng, 0.25, 0.75)
    for p in who:
        for row in p.rows:
            if row[0] >= since:
                row[1] = b
    return [told("membership", [a], [p.name for p in who], True), told("membership", [b], [p.name for p in who], True)]


def move_and_back(made, rng):
    """One process is in another arm for a while."""
    a, b = rng.sample(made.arms(), 2)
    p = rng.choice(made.of(a))
    since, until = at_part(made, rng, 0.2, 0.4), at_part(made, rng, 0.6, 0.8)
    for row in p.rows:
        if since <= row[0] < until:
            row[1] = b
    return [told("membership", [a], [p.name])]


def restart_some(made, rng):
    """Some processes of one arm begin anew."""
    arm = rng.choice(made.arms())
    who = rng.sample(made.of(arm), rng.randint(1, len(made.of(arm))))
    for p in who:
        p.births = [at_part(made, rng, 0.3, 0.6)]
        reborn(p.rows, p.births[0], rng)
    return [told("restarted", [arm], [p.name for p in who])]


def restart_started(made, rng):
    """The same, with start times in the file."""
    found = restart_some(made, rng)
    made.columns.append("start")
    return found


def restart_warm(made, rng):
    """A restart that comes back to two thirds at once; by the marks."""
    made.columns = ["hwm"]
    arm = rng.choice(made.arms())
    who = rng.sample(made.of(arm), rng.randint(1, len(made.of(arm))))
    for p in who:
        p.births = [at_part(made, rng, 0.3, 0.6)]
        reborn(p.rows, p.births[0], rng, 0.65)
    return [told("restarted", [arm], [p.name for p in who])]


def restart_arm(made, rng):
    """One arm is restarted in the last third: it is younger than the others."""
    made.columns = ["hwm"]
    arm = rng.choice(made.arms())
    since = at_part(made, rng, 0.62, 0.8)
    for p in made.of(arm):
        p.births = [since]
        reborn(p.rows, since, rng)
    return [told("restarted", [arm], [p.name for p in made.of(arm)]), told("uptimes", [arm])]


def late_some(made, rng):
    """Some processes of an arm are added midway."""
    arm = rng.choice(made.arms())
    who = rng.sample(made.of(arm), max(1, len(made.of(arm)) // 3))
    since = at_part(made, rng, 0.2, 0.6)
    for p in who:
        p.rows = [row for row in p.rows if row[0] >= since]
    return [told("added", [arm], [p.name for p in who])]


def late_arm(made, rng):
    """A whole arm began later."""
    arm = rng.choice(made.arms())
    since = at_part(made, rng, 0.3, 0.6)
    for p in made.of(arm):
        p.rows = [row for row in p.rows if row[0] >= since]
    return [told("added", [arm]), told("uptimes", [arm])]


def hole(made, rng):
    """Nobody looked for a tenth to a third of the time."""
    since = at_part(made, rng, 0.2, 0.5)
    until = since + max(8 * made.interval, made.end() * rng.uniform(0.1, 0.3))
    for p in made.processes:
        p.rows = [row for row in p.rows if not since <= row[0] < until]
    return [told("missing_snapshots")]


def gaps_some(made, rng):
    """One or two processes miss a third of the looks or more."""
    who = rng.sample(made.processes, min(2, len(made.processes) // 3))
    for p in who:
        lost = rng.uniform(0.35, 0.7)
        p.rows = [row for row in p.rows if rng.random() > lost] or p.rows[:2]
    return [told("missing_snapshots", [], [p.name for p in who])]


def ended(made, rng):
    """A process is gone for the last half."""
    p = rng.choice(made.processes)
    since = at_part(made, rng, 0.3, 0.6)
    p.rows = [row for row in p.rows if row[0] < since]
    return [told("missing_snapshots", [], [p.name])]


def hang(made, rng):
    """One process stands still for the last fifth or more."""
    p = rng.choice(made.processes)
    since = at_part(made, rng, 0.3, 0.75)
    stop = next(row[2] for row in p.rows if row[0] >= since)
    for row in p.rows:
        if row[0] >= since:
            row[2] = stop
    return [told("hung", [p.arm], [p.name])]


def hang_cpu(made, rng):
    """The same by the CPU time, while memory shivers on."""
    counters(made, rng, "cpu_s", lambda arm: 0.3)
    p = rng.choice(made.processes)
    at = int(len(p.rows) * rng.uniform(0.3, 0.75))
    p.facts["cpu_s"][at:] = [p.facts["cpu_s"][at]] * len(p.facts["cpu_s"][at:])
    return [told("hung", [p.arm], [p.name])]


def unit_some(made, rng):
    """One or two processes are in another unit than the column says."""
    arm = rng.choice([a for a in made.arms() if len(made.of(a)) >= 3])
    who = made.of(arm)[: 1 if len(made.of(arm)) < 6 else 2]
    factor = rng.choice([1024.0, 1 / 1024.0, 1000.0])
    for p in who:
        for row in p.rows:
            row[2] *= factor
    return [told("units", [arm], [p.name for p in who], True)]


def unit_arm(made, rng):
    """A whole arm is in another unit."""
    arm = rng.choice(made.arms())
    factor = rng.choice([1024.0, 1 / 1024.0, 1000.0])
    for p in made.of(arm):
        for row in p.rows:
            row[2] *= factor
    return [told("units", [arm])]


def unit_midway(made, rng):
    """An exporter was replaced midway, and writes another unit since."""
    since = at_part(made, rng, 0.3, 0.7)
    factor = rng.choice([1024.0, 1 / 1024.0])
    who = rng.sample(made.processes, rng.randint(1, 2))
    for p in who:
        for row in p.rows:
            if row[0] >= since:
                row[2] *= factor
    return [told("units", [], [p.name for p in who])]


def control_of_one(made, rng):
    arm = rng.choice(made.arms())
    keep = made.of(arm)[0]
    made.processes = [p for p in made.processes if p.arm != arm or p is keep]
    made.flags = ["--control", arm]
    return [told("one_process", [arm], [keep.name])]


def no_arm(made, rng):
    """Some processes are in no arm at all."""
    who = rng.sample(made.processes, max(1, len(made.processes) // 5))
    for p in who:
        for row in p.rows:
            row[1] = ""
    return [told("unassigned", [], [p.name for p in who])]


def counters(made, rng, column, rate_of):
    if column not in made.columns:
        made.columns.append(column)
    for p in made.processes:
        rate = rate_of(p.arm) * math.exp(rng.gauss(0.0, 0.04))
        total, sums = rng.uniform(0, 1000), []
        for row in p.rows:
            total += rate * made.interval * rng.uniform(0.8, 1.2)
            sums.append(round(total, 3))
        p.facts[column] = sums


def load_requests(made, rng):
    """One arm was asked 30 % or more above the others, or half."""
    arm, times = rng.choice(made.arms()), rng.choice([0.5, 1.35, 2.0])
    if len(made.arms()) == 2 and times < 1.0:
        times = 1.6
    counters(made, rng, "requests_total", lambda a: 40.0 * (times if a == arm else 1.0))
    # Of two arms nobody can say which is the odd one.
    return [told("load", [arm] if len(made.arms()) > 2 else [], [], True)]


def load_cpu(made, rng):
    """One arm used four times the CPU."""
    arm = rng.choice(made.arms())
    counters(made, rng, "cpu_s", lambda a: 0.15 * (6.0 if a == arm else 1.0))
    return [told("load", [arm] if len(made.arms()) > 2 else [])]


def allocator_two(made, rng):
    """One or two processes of an arm run another allocator."""
    made.columns.append("allocator")
    for p in made.processes:
        p.facts["allocator"] = [f"lib{p.arm}.so"] * len(p.rows)
    arm = rng.choice([a for a in made.arms() if len(made.of(a)) >= 3])
    odd = made.of(arm)[0]
    odd.facts["allocator"] = ["libc.so.6"] * len(odd.rows)
    return [told("allocators", [arm], [odd.name], True)]


def pages(made, column, share_of):
    made.columns.append(column)
    for p in made.processes:
        p.facts[column] = [round(row[2] * share_of(p.arm)) for row in p.rows]


def level_arms(made, rng, arm, times):
    """All arms alike but one, so that what explains the difference is known."""
    for p in made.processes:
        made.labels[p.arm] = "flat"
        drift = 0.0
        for row in p.rows:
            drift = 0.5 * drift + rng.gauss(0.0, 1.0)
            row[2] = round(200 * MIB * (times if p.arm == arm else 1.0) * (1.0 + 0.004 * drift))


def lazy(made, rng):
    """What one arm has more is pages that are free and not yet taken back."""
    arm = rng.choice(made.arms())
    level_arms(made, rng, arm, 1.5)
    pages(made, "lazyfree_kib", lambda a: 0.31 if a == arm else 0.01)
    return [told("lazy_free", [arm])]


def huge(made, rng):
    arm = rng.choice(made.arms())
    level_arms(made, rng, arm, 1.6)
    pages(made, "anonhugepages_kib", lambda a: 0.37 if a == arm else 0.02)
    return [told("huge_pages", [arm])]


FAULTS = [
    move, move_and_back, restart_some, restart_started, restart_warm, restart_arm, late_some, late_arm, hole, gaps_some, ended, hang,
    hang_cpu, unit_some, unit_arm, unit_midway, control_of_one, no_arm, load_requests, load_cpu, allocator_two, lazy,
    huge,
]


# What looks like a fault and is none: checks that may speak all the same are named.


def bounded(made, arm, kind):
    """What leaks goes on leaking under another load."""
    return "leak" if made.labels[arm] == "leak" else kind


def as_it_is(made, rng):
    return set()


def anew(made, rng):
    """Every arm counts its processes from 0."""
    made.anew = True
    return set()


def blank_groups(made, rng):
    """The group is not written down in some rows."""
    for p in made.processes:
        for row in p.rows[1:]:
            if rng.random() < 0.3:
                row[1] = ""
    return set()


def rolling(made, rng):
    """Every process is restarted once, one after the other within a tenth of the run: said, and nothing else."""
    made.columns = ["hwm"]
    begin, span = at_part(made, rng, 0.4, 0.5), 0.1 * made.end()
    for i, p in enumerate(made.processes):
        p.births = [begin + made.interval * round(span * i / len(made.processes) / made.interval)]
        reborn(p.rows, p.births[0], rng)
    return {"restarted"}


def daily(made, rng):
    """A load that halves at night, without a restart."""
    for p in made.processes:
        made.labels[p.arm] = bounded(made, p.arm, "daily")
        depth = rng.uniform(0.1, 0.3)
        for row in p.rows:
            part = row[0] / max(made.end(), 1.0)
            row[2] *= 1.0 - depth * (0.5 + 0.5 * math.sin(2 * math.pi * 3.3 * part))
    return set()


def night_shift(made, rng):
    """A load that goes down at once in the evening and up at once in the morning."""
    for p in made.processes:
        made.labels[p.arm] = bounded(made, p.arm, "daily")
        for row in p.rows:
            if int(8.0 * row[0] / max(made.end(), 1.0)) % 2:
                row[2] *= 0.78
    return set()


def collector(made, rng):
    """Teeth of a collector."""
    for p in made.processes:
        made.labels[p.arm] = bounded(made, p.arm, "saw")
        teeth, phase = rng.uniform(6.0, 14.0), rng.random()
        for row in p.rows:
            row[2] *= 1.0 + 0.8 * ((teeth * row[0] / max(made.end(), 1.0) + phase) % 1.0)
    return set()


def uneven(made, rng):
    """Processes of one arm of very different size."""
    for p in made.processes:
        times = math.exp(rng.uniform(-1.7, 1.7))
        for row in p.rows:
            row[2] = max(1024.0, row[2] * times)
    return set()


def apart_a_little(made, rng):
    """The arms were started one after the other, within 4 % of the run."""
    for i, arm in enumerate(made.arms()):
        since = 0.04 * made.end() * i / len(made.arms())
        for p in made.of(arm):
            p.rows = [row for row in p.rows if row[0] >= since]
    return set()


def two_cadences(made, rng):
    """One arm is read half or a quarter as often."""
    arm, every = rng.choice(made.arms()), rng.choice([2, 4])
    made.looks = max(made.looks, 120)
    for p in made.of(arm):
        p.rows = p.rows[::every]
    return set()


def lost_looks(made, rng):
    """Of every process three looks in a hundred are lost."""
    for p in made.processes:
        p.rows = [row for i, row in enumerate(p.rows) if i == 0 or rng.random() > 0.03]
    return set()


def outage(made, rng):
    """The monitor was away once: said as a hole, and nothing else."""
    hole(made, rng)
    return {"missing_snapshots"}


def coarse(made, rng):
    """Readings in steps of 16 MiB: long stretches of one number."""
    made.columns = []
    for p in made.processes:
        for row in p.rows:
            row[2] = 16 * MIB * max(1, round(row[2] / 16 / MIB))
    return set()


def idle(made, rng):
    """Some processes never move at all."""
    made.columns = []
    for p in rng.sample(made.processes, max(1, len(made.processes) // 4)):
        for row in p.rows:
            row[2] = p.rows[0][2]
    return set()


def settles(made, rng):
    """A fill that comes to rest: after it the readings differ by a page now and then."""
    made.columns = []
    for p in made.processes:
        made.labels[p.arm] = "fill"
        top = p.rows[0][2] * 1.4
        for i, row in enumerate(p.rows):
            part = i / len(p.rows)
            still = part > 0.4
            row[2] = top if still else top * (0.7 + 0.75 * part)
            if still and rng.random() < 0.04:
                row[2] = top = top + 4.0
    return set()


def settles_arm(made, rng):
    """One arm comes to rest, the others shiver on."""
    made.columns = []
    arm = rng.choice(made.arms())
    made.labels[arm] = "fill"
    for p in made.of(arm):
        top = p.rows[0][2] * 1.3
        for i, row in enumerate(p.rows):
            row[2] = round(top * min(1.0, 0.6 + 1.6 * i / len(p.rows)))
    return set()


def interval_marks(made, rng):
    """The column that is called a mark is the highest since the last look."""
    made.columns = ["peak"]
    for p in made.processes:
        p.facts["peak"] = [round(row[2] * rng.uniform(1.0, 1.08)) for row in p.rows]
    return set()


def spikes(made, rng):
    """Single readings that are wrong, up and down."""
    made.columns = []
    for p in made.processes:
        for row in rng.sample(p.rows, max(1, len(p.rows) // 60)):
            row[2] *= rng.choice([0.3, 2.5])
    return set()


def even_load(made, rng):
    """Requests and CPU differ as they do between processes and allocators."""
    made.columns += ["requests_total", "cpu_s"]
    cpu = {arm: math.exp(rng.uniform(-0.25, 0.25)) for arm in made.arms()}
    counters(made, rng, "requests_total", lambda a: 40.0 * math.exp(rng.gauss(0.0, 0.02)))
    counters(made, rng, "cpu_s", lambda a: 0.2 * cpu[a])
    return set()


def known_pages(made, rng):
    """Every arm has the same share of huge pages."""
    pages(made, "anonhugepages_kib", lambda a: 0.3)
    return set()


def started(made, rng):
    """Start times of processes that all began before the first look."""
    made.columns.append("start")
    return set()


def founded(made, rng):
    """Processes of one arm are restarted together as a new arm: said of the arm that they left."""
    made.columns = ["hwm"]
    arm = max(made.arms(), key=lambda a: len(made.of(a)))
    since = at_part(made, rng, 0.3, 0.6)
    for p in made.of(arm)[: max(2, len(made.of(arm)) // 2)]:
        p.births = [since]
        reborn(p.rows, since, rng)
        for row in p.rows:
            if row[0] >= since:
                row[1] = "founded"
    made.labels["founded"] = None
    return {"membership", "uptimes", "added", "restarted"}


TWINS = [
    as_it_is, anew, blank_groups, rolling, daily, night_shift, collector, uneven, apart_a_little, two_cadences,
    lost_looks, outage, coarse, idle, settles, settles_arm, interval_marks, spikes, even_load, known_pages, started, founded,
]


def write(made, path, rng):
    """CSV as `highwater verdict` reads it. The high-water mark follows the readings and falls at births only."""
    facts = [c for c in made.columns if c not in ("hwm", "start")]
    column, kib_in_one = made.value
    header = ["arm", "process", "t_s", column]
    # Of the facts a mark is called by its usual name.
    named = ["hwm_kib" if c == "peak" else c for c in facts]
    header += (["hwm_kib"] if "hwm" in made.columns else []) + (["start_s"] if "start" in made.columns else []) + named
    lines = []
    for p in made.processes:
        births = getattr(p, "births", [])
        high, last = 0.0, 0
        name = p.name.rsplit("-", 1)[1] if made.anew else p.name
        for i, (t, arm, kib) in enumerate(p.rows):
            born = sum(1 for b in births if b <= t)
            high = kib if born != last else max(high, kib)
            last = born
            value = kib / kib_in_one
            arm = "" if made.groups else arm
            row = [arm, name, f"{EPOCH + t:.1f}", f"{value:.5f}" if value < 1000 else f"{value:.0f}"]
            row += [f"{high:.0f}"] if "hwm" in made.columns else []
            before = -getattr(p, "born_before", 3600.0)
            row += [f"{EPOCH + (births[born - 1] if born else before):.0f}"] if "start" in made.columns else []
            # A row that was dropped took its facts along: they are told by what is left.
            row += [str(p.facts[c][min(i, len(p.facts[c]) - 1)]) for c in facts]
            lines.append((t, row))
    if rng.random() < 0.5:
        lines.sort(key=lambda line: line[0])
    with open(path, "w", encoding="utf-8") as out:
        out.write(",".join(header) + "\n")
        out.writelines(",".join(row) + "\n" for _, row in lines)


def write_groups(made, path):
    """Writes the files of arms beside the readings; the flags that name them."""
    flags = []
    for at, (arms, since) in enumerate(made.groups):
        file = f"{path}.groups{at}"
        with open(file, "w", encoding="utf-8") as out:
            out.write("nickname,group\n")
            out.writelines(f"{name},{arm}\n" for name, arm in arms.items())
        flags += ["--groups", file if since is None else f"{file}@{EPOCH + since:.0f}"]
    return flags


def make(rng, kind):
    """A clean experiment with a fault or a harmless oddity in it; what must be said, and what may be."""
    made = clean(rng)
    said = kind(made, rng)
    return made, said


def twin(made):
    return copy.deepcopy(made)
