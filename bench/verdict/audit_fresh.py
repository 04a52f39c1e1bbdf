"""A second exam of the audit, of the same kind as `audit_made.py`: faults and harmless oddities that were written down
before any of them was shown to the rules. `audit.py --set fresh` asks them.
"""

import math

from audit_made import MIB, at_part, level_arms, pages, reborn, told


def add_starts(made):
    made.columns = ["start"]


def swap(made, rng):
    """Two processes of two arms take each other's place, without a restart."""
    a, b = rng.sample(made.arms(), 2)
    one, other = made.of(a)[0], made.of(b)[0]
    since = at_part(made, rng, 0.3, 0.7)
    for p, to in ((one, b), (other, a)):
        for row in p.rows:
            if row[0] >= since:
                row[1] = to
    both = [one.name, other.name]
    return [told("membership", [a], both, True), told("membership", [b], both, True)]


def crash_loop(made, rng):
    """One process is born again a dozen times, with its start times in the file."""
    add_starts(made)
    p = rng.choice(made.processes)
    p.births = sorted({at_part(made, rng, 0.2, 0.95) for _ in range(12)})
    for born in p.births:
        reborn(p.rows, born, rng, 0.5)
    return [told("restarted", [p.arm], [p.name])]


def stop_and_return(made, rng):
    """Two processes are away for some looks, and come back small: no marks, no start times."""
    made.columns = []
    arm = rng.choice(made.arms())
    who = rng.sample(made.of(arm), 2)
    since = at_part(made, rng, 0.3, 0.6)
    until = since + made.interval * rng.randint(4, 6)
    for p in who:
        p.rows = [row for row in p.rows if not since <= row[0] < until]
        reborn(p.rows, until, rng, 0.25)
    return [told("restarted", [arm], [p.name for p in who])]


def older_before(made, rng):
    """One arm had run for ten times the length of the window before the first look; the others began with it."""
    add_starts(made)
    old = rng.choice(made.arms())
    for p in made.processes:
        p.born_before = 10.0 * made.end() if p.arm == old else rng.uniform(0.0, made.interval)
    return [told("uptimes", [a for a in made.arms() if a != old])]


def load_half(made, rng):
    """From the middle on one arm gets two and a half times the requests."""
    arm, since = rng.choice(made.arms()), at_part(made, rng, 0.45, 0.55)
    made.columns.append("requests_total")
    for p in made.processes:
        total, sums = 0.0, []
        for row in p.rows:
            times = 2.5 if p.arm == arm and row[0] >= since else 1.0
            total += 30.0 * times * made.interval * rng.uniform(0.9, 1.1)
            sums.append(round(total))
        p.facts["requests_total"] = sums
    return [told("load", [arm] if len(made.arms()) > 2 else [], [], True)]


def hang_two(made, rng):
    """Two processes of one arm stand still from one instant on."""
    made.columns = []
    arm = max(made.arms(), key=lambda a: len(made.of(a)))
    if len(made.of(arm)) < 5:
        return hang_two_of_all(made, rng)
    who = rng.sample(made.of(arm), 2)
    stand_still(made, who, at_part(made, rng, 0.3, 0.6))
    return [told("hung", [arm], [p.name for p in who])]


def hang_two_of_all(made, rng):
    who = [made.of(arm)[0] for arm in made.arms()[:2]]
    stand_still(made, who, at_part(made, rng, 0.3, 0.6))
    return [told("hung", [p.arm for p in who], [p.name for p in who])]


def stand_still(made, who, since):
    for p in who:
        stop = next(row[2] for row in p.rows if row[0] >= since)
        for row in p.rows:
            if row[0] >= since:
                row[2] = stop


def lazy_two(made, rng):
    """All arms but one hold pages that are free and not yet taken back."""
    arm = rng.choice(made.arms())
    level_arms(made, rng, arm, 1 / 1.6)
    pages(made, "lazyfree_kib", lambda a: 0.01 if a == arm else 0.36)
    return [told("lazy_free", [a, arm]) for a in made.arms() if a != arm]


def said_mb(made, rng):
    """The readings are called MB (or GB) and are MiB (GiB); the marks are in KiB and right."""
    made.columns = ["hwm"]
    made.value = rng.choice([("rss_mb", 1024.0), ("rss_gb", 1048576.0)])
    return [told("units")]


def moved_by_groups(made, rng):
    """The arms stand in two other files, the second of which holds from an instant on."""
    a, b = rng.sample(made.arms(), 2)
    before = {p.name: p.arm for p in made.processes}
    who = made.of(a)[: max(1, len(made.of(a)) // 3)]
    after = before | {p.name: b for p in who}
    made.groups = [(before, None), (after, at_part(made, rng, 0.3, 0.7))]
    names = [p.name for p in who]
    return [told("membership", [a], names, True), told("membership", [b], names)]


def replaced(made, rng):
    """A process ends, and another of a new name takes its place."""
    p = rng.choice(made.processes)
    since = at_part(made, rng, 0.35, 0.65)
    other = type(p)(f"{p.arm}-99", p.arm)
    other.rows = [list(row) for row in p.rows if row[0] >= since + made.interval]
    reborn(other.rows, since + made.interval, rng)
    p.rows = [row for row in p.rows if row[0] < since]
    made.processes.append(other)
    return [told("added", [p.arm], [other.name]), told("missing_snapshots", [], [p.name])]


def allocator_midway(made, rng):
    """One process is restarted with another allocator."""
    made.columns = ["hwm", "allocator"]
    for p in made.processes:
        p.facts["allocator"] = [f"lib{p.arm}.so.2"] * len(p.rows)
    p = rng.choice([p for p in made.processes if len(made.of(p.arm)) >= 3])
    p.births = [at_part(made, rng, 0.35, 0.65)]
    reborn(p.rows, p.births[0], rng)
    p.facts["allocator"] = ["libother.so.1" if row[0] >= p.births[0] else f"lib{p.arm}.so.2" for row in p.rows]
    return [told("allocators", [p.arm], [], True), told("restarted", [p.arm], [p.name])]


def huge_mib(made, rng):
    """Huge pages, told in MiB, are all that one arm has more."""
    arm = rng.choice(made.arms())
    level_arms(made, rng, arm, 1.3)
    pages(made, "AnonHugePages_mib", lambda a: (0.24 if a == arm else 0.01) / 1024.0)
    for p in made.processes:
        p.facts["AnonHugePages_mib"] = [round(row[2] * (0.24 if p.arm == arm else 0.01) / 1024.0, 2) for row in p.rows]
    return [told("huge_pages", [arm])]


def restart_in_hole(made, rng):
    """Nobody looked while one arm was restarted."""
    made.columns = ["hwm"]
    arm = rng.choice(made.arms())
    since = at_part(made, rng, 0.3, 0.5)
    until = since + 12 * made.interval
    for p in made.processes:
        p.rows = [row for row in p.rows if not since <= row[0] < until]
    for p in made.of(arm):
        p.births = [since + 5 * made.interval]
        reborn(p.rows, until, rng, 0.3)
    return [told("missing_snapshots"), told("restarted", [arm], [p.name for p in made.of(arm)])]


FAULTS = [
    swap, crash_loop, stop_and_return, older_before, load_half, hang_two, lazy_two, said_mb, moved_by_groups, replaced, allocator_midway,
    huge_mib, restart_in_hole,
]


def arms_apart(made, rng):
    """One arm is thirty times the size of the others."""
    arm = rng.choice(made.arms())
    for p in made.of(arm):
        for row in p.rows:
            row[2] *= 30.0
    return set()


def cache_flush(made, rng):
    """Once all processes of one arm give two fifths back within a few looks; their marks stay."""
    made.columns = ["hwm"]
    arm = rng.choice(made.arms())
    since = at_part(made, rng, 0.4, 0.6)
    made.labels[arm] = None
    for p in made.of(arm):
        for row in p.rows:
            away = min(1.0, max(0.0, (row[0] - since) / (5 * made.interval)))
            row[2] *= 1.0 - 0.4 * away
    return set()


def cpu_nights(made, rng):
    """Nobody asks anything for a third of the time: the CPU time of all stands still then."""
    made.columns.append("cpu_s")
    for p in made.processes:
        total, sums = 0.0, []
        for i, _ in enumerate(p.rows):
            part = i / len(p.rows)
            total += 0.0 if int(part * 9) % 3 == 2 else 0.2 * made.interval * rng.uniform(0.8, 1.2)
            sums.append(round(total, 2))
        p.facts["cpu_s"] = sums
    return set()


def uneven_requests(made, rng):
    """Requests of the arms differ by up to a twelfth, those of processes by a third."""
    of = {arm: rng.uniform(0.96, 1.04) for arm in made.arms()}
    made.columns.append("requests_total")
    for p in made.processes:
        rate, total, sums = 20.0 * of[p.arm] * math.exp(rng.gauss(0.0, 0.03)), 0.0, []
        for _ in p.rows:
            total += rate * made.interval * rng.uniform(0.5, 1.5)
            sums.append(round(total))
        p.facts["requests_total"] = sums
    return set()


def cadence_changes(made, rng):
    """The first third is read five times as often as the rest."""
    keep = {i for i in range(made.looks) if i < made.looks // 3 or i % 5 == 0}
    for p in made.processes:
        p.rows = [row for i, row in enumerate(p.rows) if i in keep]
    return set()


def allocator_paths(made, rng):
    """One library under the two names that its folder has, and after a package was upgraded under its feet."""
    made.columns.append("allocator")
    for p in made.processes:
        path = rng.choice(["/usr/lib/x86_64-linux-gnu/lib{}.so.2", "/lib/x86_64-linux-gnu/lib{}.so.2"]).format(p.arm)
        late = f"{path} (deleted)"
        p.facts["allocator"] = [path if i < 0.7 * len(p.rows) else late for i in range(len(p.rows))]
    return set()


def shivering_starts(made, rng):
    """Start times that are worked out from an age in whole seconds."""
    made.columns.append("start_time")
    for p in made.processes:
        p.facts["start_time"] = [round(1_790_000_000 - 3600 + rng.uniform(-1.5, 1.5), 1) for _ in p.rows]
    return set()


def load_step(made, rng):
    """From an instant on everybody uses two and a half times as much."""
    since = at_part(made, rng, 0.4, 0.6)
    for p in made.processes:
        made.labels[p.arm] = None
        for row in p.rows:
            row[2] *= 2.5 if row[0] >= since else 1.0
    return set()


def peaks_between(made, rng):
    """Marks far above what is seen at the looks, that rise now and then."""
    made.columns = ["peak"]
    for p in made.processes:
        high = 0.0
        marks = []
        for row in p.rows:
            high = max(high, row[2] * (1.0 if rng.random() > 0.03 else rng.uniform(1.2, 2.2)))
            marks.append(round(high))
        p.facts["peak"] = marks
    return set()


def two_sizes(made, rng):
    """A third of every arm of six or more has a fifth of what the others have."""
    for arm in made.arms():
        of = made.of(arm)
        for p in of[: len(of) // 3 if len(of) >= 6 else 0]:
            for row in p.rows:
                row[2] = max(1024.0, 0.2 * row[2])
    return set()


def first_look_partial(made, rng):
    """The first look saw only half of the processes."""
    for p in made.processes[::2]:
        p.rows = p.rows[1:]
    return set()


def small_pages(made, rng):
    """Arms that differ by a half, with a few huge pages and LazyFree that explain nothing of it."""
    arm = rng.choice(made.arms())
    level_arms(made, rng, arm, 1.5)
    pages(made, "anonhugepages_kib", lambda a: 0.03 if a == arm else 0.02)
    pages(made, "lazyfree_kib", lambda a: 0.01 if a == arm else 0.03)
    return set()


def nightly_trim(made, rng):
    """Every process gives half of its memory back three times, at once, and takes it again; its mark stays."""
    made.columns = ["hwm"]
    for p in made.processes:
        made.labels[p.arm] = "leak" if made.labels[p.arm] == "leak" else None
        for row in p.rows:
            since = (4.0 * row[0] / max(made.end(), 1.0)) % 1.0
            trimmed = row[0] * 4.0 >= made.end()
            row[2] *= 1.0 - (0.55 * math.exp(-since / 0.15) if trimmed else 0.0)
    return set()


def own_instants(made, rng):
    """Every process is read at instants of its own, by a fifth of the interval early or late."""
    for p in made.processes:
        offset = rng.uniform(0.0, 0.9) * made.interval
        for row in p.rows:
            row[0] += offset + rng.uniform(-0.2, 0.2) * made.interval
    return set()


def marks_in_mib(made, rng):
    """Readings in KiB, marks in whole MiB: the mark may be below the reading by its rounding."""
    made.columns = ["hwm_mib"]
    for p in made.processes:
        high, marks = 0.0, []
        for row in p.rows:
            high = max(high, row[2])
            marks.append(math.floor(high / MIB))
        p.facts["hwm_mib"] = marks
    return set()


TWINS = [
    arms_apart, cache_flush, cpu_nights, uneven_requests, cadence_changes, allocator_paths, shivering_starts, load_step, peaks_between,
    two_sizes, first_look_partial, small_pages, nightly_trim, own_instants, marks_in_mib,
]

# What a fault brings along, beside its own finding.
FOLLOWS = {
    "crash_loop": {"uptimes"},
    "stop_and_return": {"missing_snapshots", "uptimes"},
    "hang_two": set(),
    "replaced": {"uptimes"},
    "allocator_midway": {"uptimes"},
    "restart_in_hole": {"uptimes"},
}
