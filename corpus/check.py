#!/usr/bin/env python3
"""Checks every case of the corpus without running it: the fields of expected.toml, and its names in the source.

Exit code: 1 with a line for each fault.
"""
import doctest
import re
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
CAUSES_OF_MEMORY = {"leak", "filling", "retention", "mapping", "stacks", "files", "sockets", "kernel", "lazyfree", "hugepages",
                    "managed", "flat", "blind"}
CAUSES_OF_STALLS = {"lock", "cpu-starvation", "cpu-quota", "on-cpu", "disk", "network", "process", "page-fault",
                    "allocator", "runtime", "sleep"}
FIELDS = {
    "memory": {"about", "build", "command", "causes", "causes_started", "names", "tags", "written", "first", "over",
               "over_only", "environment", "ends_early"},
    "stalls": {"about", "build", "command", "causes", "functions", "tags", "written", "first", "arguments", "thread",
               "doing", "tolerated", "rows", "rootless", "hogs", "quota"},
}
NEEDED = {"memory": {"about", "command", "causes"}, "stalls": {"about", "command", "causes", "written"}}
WORDS = {"goroutine", "goroutines"}  # words of an answer that no source needs to have
NAME = re.compile(r"[a-z0-9_]+")


def faults_of(kind, case):
    """What is wrong with one case, in words."""
    expected = case.expected
    folder, _, variant = case.name.split("@")[0].partition("/")[2].partition(":")
    yield from (f"the name {word!r} is not in snake_case" for word in (folder, variant) if word and not NAME.fullmatch(word))
    yield from (f"{field} is missing" for field in sorted(NEEDED[kind] - expected.keys()))
    yield from (f"{field} is no field" for field in sorted(expected.keys() - FIELDS[kind]))
    known = CAUSES_OF_MEMORY if kind == "memory" else CAUSES_OF_STALLS
    for field in ("causes", "causes_started", "tolerated"):
        yield from (f"{cause!r} in {field} is no cause" for cause in expected.get(field, []) if cause not in known)
    groups = expected.get("names", []) if kind == "memory" else [expected["functions"]] if "functions" in expected else []
    source = "\n".join(path.read_text(errors="replace") for path in sources_of(case))
    for group in groups:
        if not any(last_part(name) in source or name in WORDS for name in group):
            yield f"none of {group} is in the source"


def faults_of_series():
    """What is wrong with the families of corpus/series that their reader (bench/verdict/family.rs) does not refuse."""
    import tomllib
    known = {}
    for file in sorted((HERE / "series").glob("*.toml")):
        for name, family in tomllib.loads(file.read_text()).items():
            truth = family["truth"]
            place = f"corpus/series/{file.name}: {name}"
            if not NAME.fullmatch(name) or known.setdefault(name, file) != file:
                yield f"{place} is not in snake_case, or twice there"
            if not family["about"].endswith(".") or not truth["label"]:
                yield f"{place}: about is no sentence, or no label is right"
            if truth.get("written", "with") != "with" or ("written" in truth and "first" in truth):
                yield f"{place}: written is `with`, and has no first run then"


def last_part(name):
    """What of a name a source has: `fill` of `main.(*Cache).fill`.

    >>> [last_part(name) for name in ("main.(*Cache).fill", "app::store::persist", "byte[]", "handle_request")]
    ['fill', 'persist', 'byte[]', 'handle_request']
    """
    return re.split(r"::|[.$]", name)[-1]


def sources_of(case):
    return [path for path in case.folder.rglob("*") if path.is_file() and path.name != "expected.toml"]


def main():
    if sys.version_info < (3, 11):
        print("SKIPPED corpus/check.py: it reads TOML, for which Python is 3.11 or later")
        return 0
    sys.path[:0] = [str(HERE), str(HERE / "memory")]
    from cases import load_cases, LANGUAGES  # noqa: E402 (found by the path above)
    count, faults = 0, []
    for kind in ("memory", "stalls"):
        for case in load_cases(HERE / kind, LANGUAGES, []):
            count += 1
            faults += [f"corpus/{kind}/{case.name}: {fault}" for fault in faults_of(kind, case)]
        for place in (HERE / kind).glob("*/*/"):
            if not (place / "expected.toml").exists() and place.parent.name in LANGUAGES and is_case(place):
                faults.append(f"{place.relative_to(HERE.parent)}: expected.toml is missing")
    faults += faults_of_series()
    failed = doctest.testmod(sys.modules["__main__"]).failed + doctests_of("memory") + doctests_of("stalls")
    print("\n".join(faults))
    print(f"corpus: {count} cases checked, {len(faults)} faults, {failed} of the scores' examples failed")
    return 1 if faults or failed else 0


def is_case(place):
    """Not the code that cases of a language share."""
    return place.name not in ("service", "src", "common", "target")


def doctests_of(kind):
    """How many examples of a scoring.py fail."""
    import importlib.util
    spec = importlib.util.spec_from_file_location(f"{kind}_scoring", HERE / kind / "scoring.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return doctest.testmod(module).failed


if __name__ == "__main__":
    sys.exit(main())
