"""Faults that are put into a clean experiment. Each returns the findings that must follow."""

import math

from experiments import level_arms, reborn


def finding(check, arms=(), processes=(), refuses=False):
    return {"check": check, "arms": set(arms), "processes": {p.name for p in processes}, "refuses": refuses}


def two_arms(made, rng):
    return rng.sample(made.arms(), 2)


def some_of(made, rng):
    """An arm, and some of its processes."""
    arm = rng.choice(made.arms())
    return arm, rng.sample(made.of(arm), rng.randint(1, len(made.of(arm))))


def move_to(processes, arm, since, until=math.inf):
    for p in processes:
        for row in p.rows:
            if since <= row[0] < until:
                row[1] = arm


def restart(processes, since, rng, low=0.3):
    for p in processes:
        p.births = [since]
        reborn(p.rows, since, rng, low)


def restart_each(made, processes, rng, low=0.3):
    for p in processes:
        restart([p], made.at_part(rng, 0.3, 0.6), rng, low)


def stand_still(processes, since):
    for p in processes:
        stop = next(row[2] for row in p.rows if row[0] >= since)
        for row in p.rows:
            row[2] = stop if row[0] >= since else row[2]


def counters(made, rng, column, rate_of):
    rates = {}

    def growth(p, i):
        if i == 0:
            rates[p] = rate_of(p.arm) * math.exp(rng.gauss(0.0, 0.04)), rng.uniform(0, 1000)
        return (rates[p][1] if i == 0 else 0.0) + rates[p][0] * made.interval * rng.uniform(0.8, 1.2)

    made.sum_up(column, growth)


def named(made, arm):
    """Of two arms it is open which one differs."""
    return [arm] if len(made.arms()) > 2 else []


class Faults:
    def move(made, rng):
        """A third to half of the processes of one arm go to another, without a restart."""
        a, b = two_arms(made, rng)
        who = made.of(a)[: max(1, len(made.of(a)) * rng.randint(2, 4) // 8)]
        move_to(who, b, made.at_part(rng, 0.25, 0.75))
        return [finding("membership", [a], who, True), finding("membership", [b], who, True)]

    def move_and_back(made, rng):
        """One process is in another arm for a while."""
        a, b = two_arms(made, rng)
        p = rng.choice(made.of(a))
        move_to([p], b, made.at_part(rng, 0.2, 0.4), made.at_part(rng, 0.6, 0.8))
        return [finding("membership", [a], [p])]

    def swap(made, rng):
        """Two processes of two arms take each other's place, without a restart."""
        a, b = two_arms(made, rng)
        one, other = made.of(a)[0], made.of(b)[0]
        since = made.at_part(rng, 0.3, 0.7)
        move_to([one], b, since)
        move_to([other], a, since)
        return [finding("membership", [a], [one, other], True), finding("membership", [b], [one, other], True)]

    def moved_by_groups(made, rng):
        """The arms stand in two other files, the second of which holds from an instant on."""
        a, b = two_arms(made, rng)
        before = {p.name: p.arm for p in made.processes}
        who = made.of(a)[: max(1, len(made.of(a)) // 3)]
        made.groups = [(before, None), (before | {p.name: b for p in who}, made.at_part(rng, 0.3, 0.7))]
        return [finding("membership", [a], who, True), finding("membership", [b], who)]

    def restart_some(made, rng):
        """Some processes of one arm start again."""
        arm, who = some_of(made, rng)
        restart_each(made, who, rng)
        return [finding("restarted", [arm], who)]

    def restart_warm(made, rng):
        """A restart that comes back to two thirds at once; by the high-water marks."""
        made.columns = ["hwm"]
        arm, who = some_of(made, rng)
        restart_each(made, who, rng, 0.65)
        return [finding("restarted", [arm], who)]

    def restart_arm(made, rng):
        """One arm is restarted in the last third: it is younger than the others."""
        made.columns = ["hwm"]
        arm = rng.choice(made.arms())
        restart(made.of(arm), made.at_part(rng, 0.62, 0.8), rng)
        return [finding("restarted", [arm], made.of(arm)), finding("uptimes", [arm])]

    def restart_in_hole(made, rng):
        """One arm is restarted while no snapshot is taken."""
        made.columns = ["hwm"]
        arm = rng.choice(made.arms())
        since = made.at_part(rng, 0.3, 0.5)
        until = since + 12 * made.interval
        made.keep(made.processes, lambda row: not since <= row[0] < until)
        for p in made.of(arm):
            p.births = [since + 5 * made.interval]
            reborn(p.rows, until, rng, 0.3)
        return [finding("missing_snapshots"), finding("restarted", [arm], made.of(arm))]

    def crash_loop(made, rng):
        """One process is restarted a dozen times, with its start times in the file."""
        made.columns = ["start"]
        p = rng.choice(made.processes)
        p.births = sorted({made.at_part(rng, 0.2, 0.95) for _ in range(12)})
        for born in p.births:
            reborn(p.rows, born, rng, 0.5)
        return [finding("restarted", [p.arm], [p])]

    def stop_and_return(made, rng):
        """Two processes are away for some snapshots, and come back small: no marks, no start times."""
        made.columns = []
        arm = rng.choice(made.arms())
        who = rng.sample(made.of(arm), 2)
        since = made.at_part(rng, 0.3, 0.6)
        until = since + made.interval * rng.randint(4, 6)
        for p in who:
            made.keep([p], lambda row: not since <= row[0] < until)
            reborn(p.rows, until, rng, 0.25)
        return [finding("restarted", [arm], who)]

    def older_before(made, rng):
        """One arm had run for ten times the length of the window before the first snapshot; the others had not."""
        made.columns = ["start"]
        old = rng.choice(made.arms())
        for p in made.processes:
            p.born_before = 10.0 * made.end() if p.arm == old else rng.uniform(0.0, made.interval)
        return [finding("uptimes", [a for a in made.arms() if a != old])]

    def late_some(made, rng):
        """Some processes of an arm are added midway."""
        arm = rng.choice(made.arms())
        who = rng.sample(made.of(arm), max(1, len(made.of(arm)) // 3))
        since = made.at_part(rng, 0.2, 0.6)
        made.keep(who, lambda row: row[0] >= since)
        return [finding("added", [arm], who)]

    def late_arm(made, rng):
        """A whole arm started later."""
        arm = rng.choice(made.arms())
        since = made.at_part(rng, 0.3, 0.6)
        made.keep(made.of(arm), lambda row: row[0] >= since)
        return [finding("added", [arm]), finding("uptimes", [arm])]

    def replaced(made, rng):
        """A process ends, and another of a new name takes its place."""
        p = rng.choice(made.processes)
        since = made.at_part(rng, 0.35, 0.65)
        other = type(p)(f"{p.arm}-99", p.arm)
        other.rows = [list(row) for row in p.rows if row[0] >= since + made.interval]
        reborn(other.rows, since + made.interval, rng)
        made.keep([p], lambda row: row[0] < since)
        made.processes.append(other)
        return [finding("added", [p.arm], [other]), finding("missing_snapshots", [], [p])]

    def hole(made, rng):
        """No snapshots for a tenth to a third of the time."""
        since = made.at_part(rng, 0.2, 0.5)
        until = since + max(8 * made.interval, made.end() * rng.uniform(0.1, 0.3))
        made.keep(made.processes, lambda row: not since <= row[0] < until)
        return [finding("missing_snapshots")]

    def gaps_some(made, rng):
        """One or two processes miss a third of the snapshots or more."""
        who = rng.sample(made.processes, min(2, len(made.processes) // 3))
        for p in who:
            lost = rng.uniform(0.35, 0.7)
            p.rows = [row for row in p.rows if rng.random() > lost] or p.rows[:2]
        return [finding("missing_snapshots", [], who)]

    def ended(made, rng):
        """A process is gone for the last half."""
        p = rng.choice(made.processes)
        since = made.at_part(rng, 0.3, 0.6)
        made.keep([p], lambda row: row[0] < since)
        return [finding("missing_snapshots", [], [p])]

    def hang(made, rng):
        """One process stands still for the last fifth or more."""
        p = rng.choice(made.processes)
        stand_still([p], made.at_part(rng, 0.3, 0.75))
        return [finding("hung", [p.arm], [p])]

    def hang_two(made, rng):
        """Two processes stand still from one instant on."""
        made.columns = []
        arm = max(made.arms(), key=lambda a: len(made.of(a)))
        who = rng.sample(made.of(arm), 2) if len(made.of(arm)) >= 5 else [made.of(a)[0] for a in made.arms()[:2]]
        stand_still(who, made.at_part(rng, 0.3, 0.6))
        return [finding("hung", {p.arm for p in who}, who)]

    def hang_cpu(made, rng):
        """One process uses no CPU time, while its memory moves on."""
        counters(made, rng, "cpu_s", lambda arm: 0.3)
        p = rng.choice(made.processes)
        at = int(len(p.rows) * rng.uniform(0.3, 0.75))
        p.facts["cpu_s"][at:] = [p.facts["cpu_s"][at]] * len(p.facts["cpu_s"][at:])
        return [finding("hung", [p.arm], [p])]

    def unit_some(made, rng):
        """One or two processes are in another unit than the column says."""
        arm = rng.choice([a for a in made.arms() if len(made.of(a)) >= 3])
        who = made.of(arm)[: 1 if len(made.of(arm)) < 6 else 2]
        made.scale(who, rng.choice([1024.0, 1 / 1024.0, 1000.0]))
        return [finding("units", [arm], who, True)]

    def unit_arm(made, rng):
        """A whole arm is in another unit."""
        arm = rng.choice(made.arms())
        made.scale(made.of(arm), rng.choice([1024.0, 1 / 1024.0, 1000.0]))
        return [finding("units", [arm])]

    def unit_midway(made, rng):
        """An exporter was replaced midway, and writes another unit since."""
        since = made.at_part(rng, 0.3, 0.7)
        factor = rng.choice([1024.0, 1 / 1024.0])
        who = rng.sample(made.processes, rng.randint(1, 2))
        made.scale(who, factor, since)
        return [finding("units", [], who)]

    def called_mb(made, rng):
        """The readings are called MB (or GB) and are MiB (GiB); the marks are in KiB and right."""
        made.columns = ["hwm"]
        made.value = rng.choice([("rss_mb", 1024.0), ("rss_gb", 1048576.0)])
        return [finding("units")]

    def control_of_one(made, rng):
        """The control arm has one process."""
        arm = rng.choice(made.arms())
        one = made.of(arm)[0]
        made.processes = [p for p in made.processes if p.arm != arm or p is one]
        made.flags = ["--control", arm]
        return [finding("one_process", [arm], [one])]

    def no_arm(made, rng):
        """Some processes are in no arm at all."""
        who = rng.sample(made.processes, max(1, len(made.processes) // 5))
        move_to(who, "", 0.0)
        return [finding("unassigned", [], who)]

    def load_requests(made, rng):
        """One arm got 30 % more requests than the others or more, or half."""
        arm, times = rng.choice(made.arms()), rng.choice([0.5, 1.35, 2.0])
        times = 1.6 if len(made.arms()) == 2 and times < 1.0 else times
        counters(made, rng, "requests_total", lambda a: 40.0 * (times if a == arm else 1.0))
        return [finding("load", named(made, arm), [], True)]

    def load_half(made, rng):
        """From the middle on one arm gets two and a half times the requests."""
        arm, since = rng.choice(made.arms()), made.at_part(rng, 0.45, 0.55)

        def growth(p, i):
            times = 2.5 if p.arm == arm and p.rows[i][0] >= since else 1.0
            return 30.0 * times * made.interval * rng.uniform(0.9, 1.1)

        made.sum_up("requests_total", growth)
        return [finding("load", named(made, arm), [], True)]

    def load_cpu(made, rng):
        """One arm used six times the CPU time."""
        arm = rng.choice(made.arms())
        counters(made, rng, "cpu_s", lambda a: 0.15 * (6.0 if a == arm else 1.0))
        return [finding("load", named(made, arm))]

    def allocator_two(made, rng):
        """One process of an arm runs another allocator."""
        made.columns.append("allocator")
        for p in made.processes:
            p.facts["allocator"] = [f"lib{p.arm}.so"] * len(p.rows)
        arm = rng.choice([a for a in made.arms() if len(made.of(a)) >= 3])
        other = made.of(arm)[0]
        other.facts["allocator"] = ["libc.so.6"] * len(other.rows)
        return [finding("allocators", [arm], [other], True)]

    def allocator_midway(made, rng):
        """One process is restarted with another allocator."""
        made.columns = ["hwm", "allocator"]
        for p in made.processes:
            p.facts["allocator"] = [f"lib{p.arm}.so.2"] * len(p.rows)
        p = rng.choice([p for p in made.processes if len(made.of(p.arm)) >= 3])
        restart([p], made.at_part(rng, 0.35, 0.65), rng)
        p.facts["allocator"] = ["libother.so.1" if row[0] >= p.births[0] else f"lib{p.arm}.so.2" for row in p.rows]
        return [finding("allocators", [p.arm], [], True), finding("restarted", [p.arm], [p])]

    def lazy(made, rng):
        """What one arm has more is pages that are free and not yet reclaimed."""
        arm = rng.choice(made.arms())
        level_arms(made, rng, arm, 1.5)
        made.pages("lazyfree_kib", lambda a: 0.31 if a == arm else 0.01)
        return [finding("lazy_free", [arm])]

    def huge(made, rng):
        """What one arm has more is huge pages."""
        arm = rng.choice(made.arms())
        level_arms(made, rng, arm, 1.6)
        made.pages("anonhugepages_kib", lambda a: 0.37 if a == arm else 0.02)
        return [finding("huge_pages", [arm])]


KINDS = [fault for name, fault in vars(Faults).items() if not name.startswith("_")]

# What a fault brings along, beside its own finding.
FOLLOWS = {
    "restart_some": {"uptimes"}, "restart_warm": {"uptimes"}, "move": {"uptimes"}, "late_some": {"uptimes"},
    "unit_some": {"load"}, "no_arm": {"one_process"}, "hang_cpu": {"load"},
    "unit_midway": {"restarted"}, "crash_loop": {"uptimes"}, "stop_and_return": {"missing_snapshots", "uptimes"},
    "replaced": {"uptimes"}, "allocator_midway": {"uptimes"}, "restart_in_hole": {"uptimes"},
}
