"""Made experiments for the exam of the audit: clean ones of many shapes, random by a seed, and how they are written."""

import math

MIB = 1024.0
EPOCH = 1_790_000_000
NAMES = ["glibc", "jemalloc", "mimalloc", "tcmalloc", "blue", "green", "v1.2", "v1.3"]


class Process:
    """One process: rows of (seconds, arm, RSS in KiB), facts of each row by column name, instants of its starts."""

    def __init__(self, name, arm):
        self.name, self.arm, self.rows, self.facts, self.births = name, arm, [], {}, []
        self.born_before = 3600.0


class Made:
    """An experiment: its processes, the true label of each arm, and how it is written."""

    def __init__(self):
        self.processes, self.columns, self.flags = [], [], []
        self.interval, self.snapshots, self.labels = 60.0, 100, {}
        self.from_zero = False  # every arm counts its processes from 0
        self.value = ("rss_kib", 1.0)  # column of the readings, and KiB in one of its units
        self.groups = []  # arms that stand in other files, with since when

    def arms(self):
        return list(dict.fromkeys(p.arm for p in self.processes))

    def of(self, arm):
        return [p for p in self.processes if p.arm == arm]

    def end(self):
        return self.interval * (self.snapshots - 1)

    def at_part(self, rng, lo, hi):
        return self.interval * round(self.snapshots * rng.uniform(lo, hi))

    def scale(self, processes, times, since=0.0, until=math.inf):
        for p in processes:
            for row in p.rows:
                if since <= row[0] < until:
                    row[2] *= times

    def keep(self, processes, wanted):
        for p in processes:
            p.rows = [row for row in p.rows if wanted(row)]

    def sum_up(self, column, rate_of):
        """Adds a counter that grows by `rate_of(process, number of the row)` at each row."""
        self.columns += [column] if column not in self.columns else []
        for p in self.processes:
            total, p.facts[column] = 0.0, []
            for i, _ in enumerate(p.rows):
                total += rate_of(p, i)
                p.facts[column].append(round(total, 3))

    def pages(self, column, share_of):
        self.columns.append(column)
        for p in self.processes:
            p.facts[column] = [round(row[2] * share_of(p.arm)) for row in p.rows]


def level_of(kind, part):
    if kind == "leak":
        return 1.0 + 0.6 * part
    return 1.0 + 0.5 * (1.0 - math.exp(-part / 0.08)) if kind == "fill" else 1.0


def clean(rng):
    """Two to four arms of three to ten processes; levels, spreads, intervals, grains and ages vary."""
    made = Made()
    made.interval = rng.choice([30.0, 60.0, 300.0, 600.0, 3600.0])
    made.snapshots = rng.choice([60, 90, 140, 220, 300])
    made.columns = ["hwm"] if rng.random() < 0.4 else []
    names = rng.sample(NAMES, rng.randint(2, 4))
    spread = rng.choice([0.02, 0.05, 0.15])
    noise, memory = rng.choice([0.003, 0.01, 0.03]), rng.choice([0.0, 0.6, 0.9])
    grain = rng.choice([4.0, 4.0, 1024.0])
    jitter = rng.choice([0.0, 0.0, 0.3]) * made.interval
    load = [0.0]
    for _ in range(made.snapshots):
        load.append(0.8 * load[-1] + 0.6 * rng.gauss(0.0, 1.0))
    for arm in names:
        kind = made.labels[arm] = rng.choice(["flat", "flat", "fill", "leak"])
        level = 80 * MIB * math.exp(rng.uniform(0.0, 3.0))
        for at in range(rng.randint(3, 10)):
            process = Process(f"{arm}-{at}", arm)
            own, drift, _ = level * math.exp(rng.gauss(0.0, spread)), 0.0, rng.random()
            offset = rng.uniform(0.0, jitter)
            for i in range(made.snapshots):
                drift = memory * drift + math.sqrt(1 - memory**2) * rng.gauss(0.0, 1.0)
                kib = own * level_of(kind, i / made.snapshots) * (1.0 + noise * drift + 0.004 * load[i])
                process.rows.append([made.interval * i + offset, arm, max(grain, grain * round(kib / grain))])
            made.processes.append(process)
    return made


def reborn(rows, since, rng, low=0.3):
    """From `since` on the process starts again, below where it was, and comes back within a fifth of the run."""
    floor = low * rng.uniform(0.7, 1.2)
    for row in rows:
        if row[0] >= since:
            part = (row[0] - since) / max(rows[-1][0] * 0.2, 1.0)
            row[2] *= 1.0 - (1.0 - floor) * math.exp(-3.0 * part)


def level_arms(made, rng, arm, times):
    """All arms alike but one, so that what explains the difference is known."""
    for p in made.processes:
        made.labels[p.arm], drift = "flat", 0.0
        for row in p.rows:
            drift = 0.5 * drift + rng.gauss(0.0, 1.0)
            row[2] = round(200 * MIB * (times if p.arm == arm else 1.0) * (1.0 + 0.004 * drift))


def write(made, path, rng):
    """CSV as `highwater verdict` reads it. The high-water mark follows the readings and falls at starts only."""
    facts = [c for c in made.columns if c not in ("hwm", "start")]
    column, kib_in_one = made.value
    header = ["arm", "process", "t_s", column]
    header += (["hwm_kib"] if "hwm" in made.columns else []) + (["start_s"] if "start" in made.columns else [])
    header += ["hwm_kib" if c == "peak" else c for c in facts]
    lines = []
    for p in made.processes:
        high, last = 0.0, 0
        name = p.name.rsplit("-", 1)[1] if made.from_zero else p.name
        for i, (t, arm, kib) in enumerate(p.rows):
            born = sum(1 for b in p.births if b <= t)
            high = kib if born != last else max(high, kib)
            last = born
            value = kib / kib_in_one
            row = ["" if made.groups else arm, name, f"{EPOCH + t:.1f}", f"{value:.{5 if value < 1000 else 0}f}"]
            row += [f"{high:.0f}"] if "hwm" in made.columns else []
            start = EPOCH + (p.births[born - 1] if born else -p.born_before)
            row += [f"{start:.0f}"] if "start" in made.columns else []
            # A row that was dropped took its facts along: those that are left stand in the rows that are left.
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
    """A clean experiment with a fault or something harmless in it; what must be found, and what may be."""
    made = clean(rng)
    return made, kind(made, rng)
