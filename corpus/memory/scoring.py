"""How an answer of the tool is scored against a case's expected.toml. No input or output here."""
import re
from dataclasses import asdict, dataclass


# They say that more cannot be said: that something is held, or that a heap is not seen into.
INCONCLUSIVE = ("filling", "blind")


@dataclass
class Score:
    cause: str
    confidence: object
    sentence: str
    cause_right: bool
    inconclusive: bool  # a cause that is not right, and nothing false
    names_in_sentence: bool
    names_anywhere: bool
    missing_in_sentence: list
    missing_anywhere: list

    @property
    def word(self):
        """The one word of a case: `half` is the right cause without every name a maintainer needs."""
        if not self.cause_right:
            return "unsure" if self.inconclusive else "wrong"
        return "right" if self.names_in_sentence else "half"

    def as_dict(self):
        return {"score": self.word, **asdict(self)}


def is_healthy(expected):
    """A case is healthy if no growth is the truth."""
    return "flat" in expected["causes"]


def has_word(word, text):
    """Whether a name stands in the text as a whole, and not as a part of a longer name.

    >>> has_word("Session", "App$Session"), has_word("Session", "SessionStore"), has_word("find", "Cache.find()")
    (True, False, True)
    """
    return re.search(rf"(?<![A-Za-z0-9_]){re.escape(word)}(?![A-Za-z0-9_])", text) is not None


def missing_groups(groups, text):
    """The groups of names of which not one stands in the text.

    >>> missing_groups([["Order", "Task"], ["ORDERS"], []], "Task in waiting")
    [['ORDERS'], []]
    """
    return [group for group in groups if not any(has_word(word, text) for word in group)]


def texts_of(value):
    """Every string of a JSON value, one a line. A key counts if it may be a program's name: `threads` is a field's.

    >>> texts_of({"threads": [{"type": "Session"}, 3, None], "main.Order": 7}).split()
    ['main.Order', 'Session']
    """
    if isinstance(value, str):
        return value
    if isinstance(value, dict):
        names = [key for key in value if not re.fullmatch("[a-z0-9_]+", key)]
        return texts_of([*names, *value.values()])
    if isinstance(value, list):
        return "\n".join(text for text in map(texts_of, value) if text)
    return ""


def score(expected, answer):
    """Scores one answer, the JSON of `explain`.

    >>> expected = {"causes": ["managed"], "names": [["Order"], ["ORDERS"]]}
    >>> answer = {"verdict": {"cause": "managed", "sentence": "Order grows"}, "rows": [{"held by": "app.ORDERS"}]}
    >>> result = score(expected, answer)
    >>> result.word, result.names_anywhere, result.missing_in_sentence
    ('half', True, [['ORDERS']])
    >>> score({"causes": ["flat"]}, {"verdict": {"cause": "leak", "sentence": "It leaks."}}).word
    'wrong'
    >>> score({"causes": ["flat"]}, {"verdict": {"cause": "flat", "sentence": "It stays."}}).word
    'right'
    >>> [score({"causes": [right]}, {"verdict": {"cause": "filling"}}).word for right in ("leak", "flat")]
    ['unsure', 'wrong']
    """
    verdict = answer.get("verdict") or {}
    cause = verdict.get("cause")
    groups = expected.get("names", [])
    spoken = texts_of([verdict.get("sentence"), verdict.get("next_step")])
    missing_in_sentence = missing_groups(groups, spoken)
    missing_anywhere = missing_groups(groups, texts_of(answer))
    return Score(
        cause=str(cause),
        confidence=verdict.get("confidence"),
        sentence=texts_of(verdict.get("sentence")),
        cause_right=cause in expected["causes"],
        inconclusive=cause in INCONCLUSIVE and not {cause, "flat"} & set(expected["causes"]),
        names_in_sentence=not missing_in_sentence,
        names_anywhere=not missing_anywhere,
        missing_in_sentence=missing_in_sentence,
        missing_anywhere=missing_anywhere,
    )


def summary(results):
    """Rows of the final table: by language, then all. A result is {language, healthy, score: Score or None}.

    >>> bad = score({"causes": ["flat"]}, {"verdict": {"cause": "leak"}})
    >>> rows = summary([{"language": "go", "healthy": True, "score": bad}, {"language": "go", "healthy": False,
    ...                                                                     "score": None}])
    >>> rows[-1]["cases"], rows[-1]["cause right"], rows[-1]["false alarms"], rows[-1]["no answer"]
    (2, '0/2', '1/1', 1)
    """
    rows = []
    for language in [*dict.fromkeys(result["language"] for result in results), "all"]:
        chosen = [result for result in results if language in (result["language"], "all")]
        scores = [result["score"] for result in chosen]
        unwell = [result["score"] for result in chosen if not result["healthy"]]
        healthy = [result["score"] for result in chosen if result["healthy"]]
        rows.append({
            "language": language,
            "cases": len(chosen),
            "cause right": f"{sum(s is not None and s.cause_right for s in scores)}/{len(scores)}",
            "inconclusive": sum(s is not None and s.inconclusive for s in scores),
            "names in sentence": f"{sum(s is not None and s.names_in_sentence for s in unwell)}/{len(unwell)}",
            "names anywhere": f"{sum(s is not None and s.names_anywhere for s in unwell)}/{len(unwell)}",
            "false alarms": f"{sum(s is not None and not s.cause_right for s in healthy)}/{len(healthy)}",
            "no answer": sum(s is None for s in scores),
        })
    return rows


def confusion(results):
    """Rows of a table: the cause that is right (the first of several) by what was answered.

    >>> flat = score({"causes": ["flat"]}, {"verdict": {"cause": "leak"}})
    >>> confusion([{"causes": ["flat", "retention"], "score": flat}, {"causes": ["leak"], "score": None}])
    [{'right | answered': 'flat', 'leak': 1, 'no answer': ''}, {'right | answered': 'leak', 'leak': '', 'no answer': 1}]
    """
    def answered(result):
        return result["score"].cause if result["score"] else "no answer"

    rights = sorted({result["causes"][0] for result in results})
    answers = sorted({answered(result) for result in results}, key=lambda name: (name == "no answer", name))
    counts = {}
    for result in results:
        cell = (result["causes"][0], answered(result))
        counts[cell] = counts.get(cell, 0) + 1
    return [{"right | answered": right, **{answer: counts.get((right, answer), "") for answer in answers}}
            for right in rights]
