"""A row for each finding of a `highwater stalls --json`, and below it the culprit's and the waiters' own functions."""

import json
import re
import sys

FRAMES_MAX = 6


def short(name):
    """A function without its type parameters."""
    while (cut := re.sub(r"<[^<>]*>", "", name)) != name:
        name = cut
    return name


def own(stack):
    """Functions of the subject: those that are neither libc's, SQLite's nor of a library of Rust."""
    foreign = re.compile(r"^_|::|sqlite3|syscall|Page|Payload|^fts5|^unix|closure|^do_call|^call|^catch|^drop|^try_"
                         r"|^start_thread|^clone")
    names = [short(frame) for frame in stack]
    return [name for name in names if name and not foreign.search(name)][:FRAMES_MAX]


with open(sys.argv[1], encoding="utf-8") as file:
    found = json.load(file)
for row in found["findings"]:
    culprit = row["culprit"]
    period = f", every {row['period_ns'] / 1e9:.2f} s" if row["period_ns"] else ""
    print(
        f"{row['cause']:15} {row['count']:5} stalls, {row['threads']:2} threads, "
        f"longest {row['longest_ns'] / 1e6:7.1f} ms, "
        f"total {row['total_ns'] / 1e6:9.1f} ms{period}{', inferred' if row['inferred'] else ''}"
    )
    print(f"    {culprit['thread']} in {short(culprit['function'] or '?')}: {short(culprit['doing'] or '?')}")
    print(f"    its stack: {' < '.join(own(culprit['stack'] or [])) or '?'}")
checks = found["self_checks"]
print(f"mode {found['mode']}, {checks['lost_records']} records lost")
