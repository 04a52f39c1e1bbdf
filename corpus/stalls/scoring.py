"""How the rows of `highwater stalls --json` are scored against a variant of expected.toml. No input or output here."""
import json
from dataclasses import asdict, dataclass

# Where a culprit's name may stand, the best place first.
PLACES = ("function", "stack", "elsewhere")
# Words of the tool for what a culprit does.
ACTIVITIES = {
    "disk": ("disk", "sync", "read of", "write of"),
    "network": ("network", "connect to", "reply"),
    "on-cpu": ("on CPU", "garbage collection"),
    "runnable": ("runnable",),
    "sleep": ("time", "sleep"),
}
TOLERATED = ["cpu-starvation"]  # true of any service on a busy machine


@dataclass
class Score:
    right: bool  # a row of a right cause; of a healthy variant: no row
    first: bool  # and it is the first row that is not merely tolerated
    named: str | None  # where the culprit's function stands; None if no name is expected
    thread: bool | None
    doing: bool | None
    extra: int  # rows of other causes, or more of the right one than the fault has

    @property
    def word(self):
        if not self.right:
            return "wrong"
        complete = self.first and self.named in (None, "function", "stack") and not self.extra
        return "right" if complete else "half"

    def as_dict(self):
        return {"score": self.word, **asdict(self)}


def is_healthy(expected):
    return not expected["causes"]


def place_of(functions, row):
    """Where a row names one of the functions.

    >>> row = {"culprit": {"function": "app.persist", "stack": ["write", "flush_all"]}, "chain": [{"thread": "saver"}]}
    >>> [place_of([name], row) for name in ("persist", "flush_all", "saver", "reload")]
    ['function', 'stack', 'elsewhere', None]
    """
    culprit = row.get("culprit") or {}
    texts = (culprit.get("function") or "", json.dumps(culprit.get("stack") or []), json.dumps(row))
    return next((place for place, text in zip(PLACES, texts) if any(name in text for name in functions)), None)


def does(activity, row):
    """Whether a row's culprit does it.

    >>> [does(activity, {"culprit": {"doing": "fdatasync of journal"}}) for activity in ("disk", "network")]
    [True, False]
    """
    said = (row.get("culprit") or {}).get("doing") or ""
    return any(word in said for word in ACTIVITIES[activity])


def score(expected, rows):
    """Scores the rows of one answer.

    >>> row = {"cause": "lock", "total_ns": 5, "culprit": {"function": "persist_index", "doing": "fsync of a file"}}
    >>> busy = {"cause": "cpu-starvation", "total_ns": 9}
    >>> fault = {"causes": ["lock"], "functions": ["persist_index"]}
    >>> score(fault, [busy, row]).word, score(fault, [busy]).word, score({"causes": []}, [busy]).word
    ('right', 'wrong', 'right')
    >>> score({"causes": []}, [row]).word, score(fault, [row, row]).word, score(fault, [row]).first
    ('wrong', 'half', True)
    """
    causes, tolerated = expected["causes"], expected.get("tolerated", TOLERATED)
    rows = sorted(rows, key=lambda row: -(row.get("total_ns") or 0))
    right = [row for row in rows if row["cause"] in causes]
    other = [row for row in rows if row["cause"] not in causes and row["cause"] not in tolerated]
    extra = len(other) + max(0, len(right) - expected.get("rows", 1))
    if is_healthy(expected):
        return Score(right=not other, first=not other, named=None, thread=None, doing=None, extra=len(other))
    leading = [row for row in rows if row["cause"] in causes or row["cause"] not in tolerated]
    functions, thread, doing = (expected.get(key) for key in ("functions", "thread", "doing"))
    places = [place for place in (place_of(functions or [], row) for row in right) if place]
    return Score(
        right=bool(right),
        first=bool(leading) and leading[0]["cause"] in causes,
        named=min(places, key=PLACES.index, default="nowhere") if functions else None,
        thread=any(thread in json.dumps(row.get("culprit")) for row in right) if thread else None,
        doing=any(does(doing, row) for row in right) if doing else None,
        extra=extra,
    )


def rate(values):
    values = list(values)
    return f"{sum(values)}/{len(values)}" if values else ""


def summary(results):
    """Rows of the final table: by language, then all. A result is {language, expected, score: Score or None}."""
    rows = []
    for language in [*dict.fromkeys(result["language"] for result in results), "all"]:
        chosen = [result for result in results if language in (result["language"], "all")]
        scores = [(is_healthy(result["expected"]), result["score"]) for result in chosen]
        faults = [score for healthy, score in scores if not healthy]
        named = [score for score in faults if score and score.named]
        rows.append({
            "language": language,
            "variants": len(chosen),
            "cause right": rate(score is not None and score.right for score in faults),
            "in the first row": rate(score is not None and score.right and score.first for score in faults),
            "function": rate(score.named == "function" for score in named),
            "or on the stack": rate(score.named in ("function", "stack") for score in named),
            "activity": rate(score.doing for score in faults if score and score.doing is not None),
            "false alarms": rate(score is not None and not score.right for healthy, score in scores if healthy),
            "extra rows": sum(score.extra for score in faults if score),
            "no answer": sum(score is None for _, score in scores),
        })
    return rows


def confusion(results):
    """Rows of a table: the right cause (the first of several) by the cause of the first row that is not tolerated.

    >>> fault = {"expected": {"causes": ["lock"]}, "score": True, "rows": [{"cause": "disk", "total_ns": 1}]}
    >>> confusion([fault, {"expected": {"causes": []}, "score": True, "rows": []}])
    [{'right | answered': 'lock', 'disk': 1, 'none': ''}, {'right | answered': 'none', 'disk': '', 'none': 1}]
    """
    def answered(result):
        if result["score"] is None:
            return "no answer"
        expected = result["expected"]
        passed_over = set(expected.get("tolerated", TOLERATED)) - set(expected["causes"])
        rows = sorted(result["rows"], key=lambda row: -(row.get("total_ns") or 0))
        return next((row["cause"] for row in rows if row["cause"] not in passed_over), "none")

    def right(result):
        return (result["expected"]["causes"] or ["none"])[0]

    def order(name):
        return (name in ("none", "no answer"), name)

    counts = {}
    for result in results:
        cell = (right(result), answered(result))
        counts[cell] = counts.get(cell, 0) + 1
    answers = sorted({cell[1] for cell in counts}, key=order)
    return [{"right | answered": cause, **{answer: counts.get((cause, answer), "") for answer in answers}}
            for cause in sorted({cell[0] for cell in counts}, key=order)]
