"""What only resembles a fault of an experiment. Each returns the checks that may speak all the same."""

import math

from experiments import EPOCH, MIB, level_arms, reborn
from faults import Faults, counters, restart


def bounded(made, arm, kind):
    """What leaks goes on leaking under another load."""
    return "leak" if made.labels[arm] == "leak" else kind


def follow(made, kind, times_of):
    """Multiplies every reading by a number that follows its part of the run; `times_of(process)` draws for each."""
    for p in made.processes:
        made.labels[p.arm] = bounded(made, p.arm, kind)
        times = times_of(p)
        for row in p.rows:
            row[2] *= times(row[0] / max(made.end(), 1.0))


class Harmless:
    def as_it_is(made, rng):
        """A clean experiment."""
        return set()

    def numbered_from_zero(made, rng):
        """Every arm counts its processes from 0."""
        made.from_zero = True
        return set()

    def blank_groups(made, rng):
        """The group is missing in some rows."""
        for p in made.processes:
            for row in p.rows[1:]:
                row[1] = "" if rng.random() < 0.3 else row[1]
        return set()

    def rolling(made, rng):
        """Every process is restarted once, one after the other within a tenth of the run."""
        made.columns = ["hwm"]
        first, span = made.at_part(rng, 0.4, 0.5), 0.1 * made.end()
        for i, p in enumerate(made.processes):
            restart([p], first + made.interval * round(span * i / len(made.processes) / made.interval), rng)
        return {"restarted"}

    def founded(made, rng):
        """Processes of one arm are restarted together as a new arm."""
        made.columns = ["hwm"]
        arm = max(made.arms(), key=lambda a: len(made.of(a)))
        since = made.at_part(rng, 0.3, 0.6)
        for p in made.of(arm)[: max(2, len(made.of(arm)) // 2)]:
            restart([p], since, rng)
            for row in p.rows:
                row[1] = "founded" if row[0] >= since else row[1]
        made.labels["founded"] = None
        return {"membership", "uptimes", "added", "restarted"}

    def daily(made, rng):
        """A load that falls at night, without a restart."""

        def night(p):
            depth = rng.uniform(0.1, 0.3)
            return lambda part: 1.0 - depth * (0.5 + 0.5 * math.sin(2 * math.pi * 3.3 * part))

        follow(made, "daily", night)
        return set()

    def night_shift(made, rng):
        """A load that goes down at once in the evening and up at once in the morning."""
        follow(made, "daily", lambda p: lambda part: 0.78 if int(8.0 * part) % 2 else 1.0)
        return set()

    def collector(made, rng):
        """The cycles of a garbage collector."""

        def cycles(p):
            turns, phase = rng.uniform(6.0, 14.0), rng.random()
            return lambda part: 1.0 + 0.8 * ((turns * part + phase) % 1.0)

        follow(made, "saw", cycles)
        return set()

    def load_step(made, rng):
        """From an instant on every process uses two and a half times as much."""
        made.scale(made.processes, 2.5, made.at_part(rng, 0.4, 0.6))
        made.labels = dict.fromkeys(made.labels)
        return set()

    def cache_flush(made, rng):
        """Once all processes of one arm free two fifths within a few snapshots; their marks stay."""
        made.columns = ["hwm"]
        arm = rng.choice(made.arms())
        since = made.at_part(rng, 0.4, 0.6)
        made.labels[arm] = None
        for p in made.of(arm):
            for row in p.rows:
                row[2] *= 1.0 - 0.4 * min(1.0, max(0.0, (row[0] - since) / (5 * made.interval)))
        return set()

    def nightly_trim(made, rng):
        """Every process frees half of its memory three times, at once, and allocates it again; its mark stays."""
        made.columns = ["hwm"]
        trimmed = lambda part: 1.0 - (0.55 * math.exp(-(4.0 * part % 1.0) / 0.15) if part >= 0.25 else 0.0)
        follow(made, None, lambda p: trimmed)
        return set()

    def uneven(made, rng):
        """Processes of one arm of very different size."""
        for p in made.processes:
            times = math.exp(rng.uniform(-1.7, 1.7))
            for row in p.rows:
                row[2] = max(1024.0, row[2] * times)
        return set()

    def two_sizes(made, rng):
        """A third of every arm of six or more has a fifth of what the others have."""
        for arm in made.arms():
            of = made.of(arm)
            for p in of[: len(of) // 3 if len(of) >= 6 else 0]:
                for row in p.rows:
                    row[2] = max(1024.0, 0.2 * row[2])
        return set()

    def arms_apart(made, rng):
        """One arm is thirty times the size of the others."""
        made.scale(made.of(rng.choice(made.arms())), 30.0)
        return set()

    def apart_a_little(made, rng):
        """The arms were started one after the other, within 4 % of the run."""
        for i, arm in enumerate(made.arms()):
            since = 0.04 * made.end() * i / len(made.arms())
            made.keep(made.of(arm), lambda row: row[0] >= since)
        return set()

    def starts_from_ages(made, rng):
        """Start times that are worked out from an age in whole seconds."""
        made.columns.append("start_time")
        for p in made.processes:
            p.facts["start_time"] = [round(EPOCH - 3600 + rng.uniform(-1.5, 1.5), 1) for _ in p.rows]
        return set()

    def two_cadences(made, rng):
        """One arm is read half or a quarter as often."""
        arm, every = rng.choice(made.arms()), rng.choice([2, 4])
        made.snapshots = max(made.snapshots, 120)
        for p in made.of(arm):
            p.rows = p.rows[::every]
        return set()

    def cadence_changes(made, rng):
        """The first third is read five times as often as the rest."""
        for p in made.processes:
            p.rows = [row for i, row in enumerate(p.rows) if i < made.snapshots // 3 or i % 5 == 0]
        return set()

    def own_instants(made, rng):
        """Every process is read at instants of its own, by a fifth of the interval early or late."""
        for p in made.processes:
            offset = rng.uniform(0.0, 0.9) * made.interval
            for row in p.rows:
                row[0] += offset + rng.uniform(-0.2, 0.2) * made.interval
        return set()

    def lost_snapshots(made, rng):
        """Of every process three snapshots in a hundred are lost."""
        for p in made.processes:
            p.rows = [row for i, row in enumerate(p.rows) if i == 0 or rng.random() > 0.03]
        return set()

    def first_snapshot_partial(made, rng):
        """The first snapshot has only half of the processes."""
        for p in made.processes[::2]:
            p.rows = p.rows[1:]
        return set()

    def outage(made, rng):
        """The monitor was away once."""
        Faults.hole(made, rng)
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
                row[2] = top if part > 0.4 else top * (0.7 + 0.75 * part)
                if part > 0.4 and rng.random() < 0.04:
                    row[2] = top = top + 4.0
        return set()

    def settles_arm(made, rng):
        """One arm comes to rest, the others move on."""
        made.columns = []
        arm = rng.choice(made.arms())
        made.labels[arm] = "fill"
        for p in made.of(arm):
            top = p.rows[0][2] * 1.3
            for i, row in enumerate(p.rows):
                row[2] = round(top * min(1.0, 0.6 + 1.6 * i / len(p.rows)))
        return set()

    def spikes(made, rng):
        """Single readings that are wrong, up and down."""
        made.columns = []
        for p in made.processes:
            for row in rng.sample(p.rows, max(1, len(p.rows) // 60)):
                row[2] *= rng.choice([0.3, 2.5])
        return set()

    def interval_marks(made, rng):
        """The column that is called a mark is the highest since the last snapshot."""
        made.columns = ["peak"]
        for p in made.processes:
            p.facts["peak"] = [round(row[2] * rng.uniform(1.0, 1.08)) for row in p.rows]
        return set()

    def peaks_between(made, rng):
        """Marks far above what the snapshots show, that rise now and then."""
        made.columns = ["peak"]
        for p in made.processes:
            high, p.facts["peak"] = 0.0, []
            for row in p.rows:
                high = max(high, row[2] * (1.0 if rng.random() > 0.03 else rng.uniform(1.2, 2.2)))
                p.facts["peak"].append(round(high))
        return set()

    def marks_in_mib(made, rng):
        """Readings in KiB, marks in whole MiB: the mark may be below the reading by its rounding."""
        made.columns = ["hwm_mib"]
        for p in made.processes:
            high, p.facts["hwm_mib"] = 0.0, []
            for row in p.rows:
                high = max(high, row[2])
                p.facts["hwm_mib"].append(math.floor(high / MIB))
        return set()

    def even_load(made, rng):
        """Requests and CPU time differ as they do between processes and allocators."""
        made.columns += ["requests_total", "cpu_s"]
        cpu = {arm: math.exp(rng.uniform(-0.25, 0.25)) for arm in made.arms()}
        counters(made, rng, "requests_total", lambda a: 40.0 * math.exp(rng.gauss(0.0, 0.02)))
        counters(made, rng, "cpu_s", lambda a: 0.2 * cpu[a])
        return set()

    def cpu_nights(made, rng):
        """No requests for a third of the time: the CPU time of all stands still then."""

        def growth(p, i):
            rests = int(i / len(p.rows) * 9) % 3 == 2
            return 0.0 if rests else 0.2 * made.interval * rng.uniform(0.8, 1.2)

        made.sum_up("cpu_s", growth)
        return set()

    def small_pages(made, rng):
        """Arms that differ by a half, with a few huge pages and LazyFree that explain nothing of it."""
        arm = rng.choice(made.arms())
        level_arms(made, rng, arm, 1.5)
        made.pages("anonhugepages_kib", lambda a: 0.03 if a == arm else 0.02)
        made.pages("lazyfree_kib", lambda a: 0.01 if a == arm else 0.03)
        return set()

    def allocator_paths(made, rng):
        """One library under the two names that its folder has, and after a package was upgraded while it ran."""
        made.columns.append("allocator")
        for p in made.processes:
            path = rng.choice(["/usr/lib/x86_64-linux-gnu", "/lib/x86_64-linux-gnu"]) + f"/lib{p.arm}.so.2"
            old = [path if i < 0.7 * len(p.rows) else f"{path} (deleted)" for i in range(len(p.rows))]
            p.facts["allocator"] = old
        return set()


KINDS = [kind for name, kind in vars(Harmless).items() if not name.startswith("_")]
