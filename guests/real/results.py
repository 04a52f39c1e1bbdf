"""Comparing the results of two runs, and keeping them: a line of JSON for each program and arm."""
import json
import pathlib
import statistics

TEXT_MAX = 300


def compared(results):
    """Results but those whose name begins with "_", which are only informative."""
    return {name: value for name, value in results.items() if not name.startswith("_")}


def differences(expected, results, unstable=()):
    """A line for each result that differs."""
    expected, results = compared(expected), compared(results)
    lines = []
    for name in sorted(expected.keys() | results.keys()):
        if name not in unstable and expected.get(name) != results.get(name):
            lines.append(f"{name}: {difference(expected.get(name), results.get(name))}")
    return lines


def difference(expected, value):
    """What differs, in few words: of a table its rows."""
    if isinstance(expected, dict) and isinstance(value, dict):
        rows = [f"{key}: {value.get(key)} instead of {expected.get(key)}"
                for key in sorted(expected.keys() | value.keys()) if expected.get(key) != value.get(key)]
        return f"{len(rows)} differ: " + "; ".join(rows)[:TEXT_MAX]
    return f"{str(value)[:TEXT_MAX]!r} instead of {str(expected)[:TEXT_MAX]!r}"


def unstable(runs):
    """The names of results that differ between runs of one arm: they cannot be compared."""
    names = {name for results in runs for name in compared(results)}
    return sorted(name for name in names if any(run.get(name) != runs[0].get(name) for run in runs))


def ratio(rates, plain):
    """Of rates to the median plain rate: median [least to most]."""
    if not rates or not plain:
        return None
    of = statistics.median(plain)
    ratios = sorted(rate / of for rate in rates)
    return [round(statistics.median(ratios), 3), round(ratios[0], 3), round(ratios[-1], 3)]


class Store:
    """The lines that were kept; a run goes on where an earlier one of the same name stopped."""

    def __init__(self, file):
        self.file = pathlib.Path(file)
        self.rows = []
        if self.file.exists():
            self.rows = [json.loads(line) for line in self.file.read_text().splitlines()]

    def has(self, program):
        return any(row["program"] == program and row["arm"] == "end" for row in self.rows)

    def add(self, **row):
        self.rows.append(row)
        with open(self.file, "a") as file:
            file.write(json.dumps(row) + "\n")

    def drop_unfinished(self):
        finished = {row["program"] for row in self.rows if row["arm"] == "end"}
        self.rows = [row for row in self.rows if row["program"] in finished]
        self.file.write_text("".join(json.dumps(row) + "\n" for row in self.rows))

    def table(self):
        """Markdown: program, version, workload, arm, differences, rate over the plain arm's."""
        lines = ["| program | workload | arm | runs | differences | rate / plain |", "|---|---|---|---|---|---|"]
        for row in self.rows:
            if row["arm"] == "end":
                continue
            found = "<br>".join(row["differences"]) or ("" if row["arm"].startswith("plain") else "none")
            if row.get("skipped"):
                found = f"skipped: {row['skipped']}"
            rate = row.get("ratio")
            rate = f"{rate[0]} [{rate[1]} to {rate[2]}]" if rate else ""
            arm = row["arm"] + (f" ({row['attachments']})" if row.get("attachments") else "")
            lines.append(f"| {row['program']} {row.get('version', '')} | {row.get('workload', '')} | {arm} "
                         f"| {row.get('runs', '')} | {found} | {rate} |")
        return "\n".join(lines)
