#!/usr/bin/env python3
"""Runs the cases of this folder, asks the tool about each, and scores its answers.

    run.py HIGHWATER [--only a,b] [--seconds 30] [--jobs 1] [--started] [--allow-pause 1s] [--out results.json]

HIGHWATER is the tool's binary. --only takes parts of case names such as `python/sessions`. Each program runs and is
asked about by its pid; with --started the tool starts it. Exit code: 0 if it ran.
"""
import argparse
import concurrent.futures
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
from cases import (LANGUAGES, Builder, CaseFailed, allocator_library, last_line, load_cases, print_line, print_table,  # noqa: E402
                   resolved, running, why_not_here)
from scoring import confusion, is_healthy, score, summary  # noqa: E402

SECONDS_UNTIL_READY = 120
SECONDS_TO_ANSWER = 120  # beyond the observation itself


def wait_until_ready(process):
    """Returns once the program has printed `ready`."""
    ready = threading.Event()

    def read_output():
        with contextlib.suppress(ValueError):  # the pipe is closed once the case is over
            for line in process.stdout:
                if line.strip() == "ready":
                    ready.set()

    threading.Thread(target=read_output, daemon=True).start()
    for _ in range(SECONDS_UNTIL_READY * 10):
        if ready.wait(0.1):
            return
        if process.poll() is not None and not ready.wait(0.5):
            raise CaseFailed(f"the program ended with {process.returncode} before it was ready")
    raise CaseFailed(f"the program was not ready within {SECONDS_UNTIL_READY} s")


def answer_of(words, seconds, **options):
    """The tool's answer as parsed JSON."""
    try:
        done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace",
                              timeout=seconds + SECONDS_TO_ANSWER, **options)
    except subprocess.TimeoutExpired:
        raise CaseFailed(f"the tool did not answer within {seconds + SECONDS_TO_ANSWER} s") from None
    start = done.stdout.find("{")  # a program that the tool starts prints before it
    try:
        answer, _ = json.JSONDecoder().raw_decode(done.stdout[max(start, 0):])
    except json.JSONDecodeError:
        answer = None
    if not isinstance(answer, dict):
        raise CaseFailed(f"the tool ended with {done.returncode} and no JSON object: {last_line(done.stderr)}")
    return answer


def environment_of(case):
    """The program's environment: the case's own, and the allocator that is preloaded."""
    preload = {"LD_PRELOAD": allocator_library(case.over)} if case.over else {}
    return {**os.environ, **case.expected.get("environment", {}), **preload}


def ask(case, folder, options):
    """Starts one case and asks about it."""
    words = [options.highwater, "explain", "--json", "--quiet", "--duration", str(options.seconds)]
    if options.allow_pause:
        words += ["--allow-pause", options.allow_pause]
    command = resolved(case.expected["command"], folder)
    if options.started:
        return answer_of([*words, "--", *command], options.seconds, cwd=folder, env=environment_of(case))
    with tempfile.TemporaryFile("w+") as errors:
        with running(command, folder, env=environment_of(case), stdout=subprocess.PIPE, stderr=errors,
                     text=True) as process:
            try:
                wait_until_ready(process)
                return answer_of([*words, "--pid", str(process.pid)], options.seconds)
            except CaseFailed as failure:
                errors.seek(0)
                said = last_line(errors.read())
                raise CaseFailed(f"{failure}{'; it said: ' if said else ''}{said}") from None


def truth_of(case, started):
    """What is right for the way in which the tool is asked."""
    causes = case.expected.get("causes_started", case.expected["causes"]) if started else case.expected["causes"]
    return {**case.expected, "causes": causes}


def run_case(case, folder, options):
    truth = truth_of(case, options.started)
    result = {"case": case.name, "language": case.language, "healthy": is_healthy(truth), "causes": truth["causes"],
              "score": None, "answer": None, "failure": None}
    try:
        if isinstance(folder, CaseFailed):
            raise folder
        result["answer"] = ask(case, folder, options)
        result["score"] = score(truth, result["answer"])
        print_line(result["score"].word, case.name, f"{result['score'].cause}: {result['score'].sentence}")
    except CaseFailed as failure:
        result["failure"] = str(failure)
        print_line("failed", case.name, str(failure))
    return result


def built(case, builder):
    try:
        return builder.folder_of(case)
    except CaseFailed as failure:
        return failure


def run_all(options):
    results, skipped = [], {}
    builder = Builder()
    pool = concurrent.futures.ThreadPoolExecutor(options.jobs)
    try:
        waiting = []
        for case in load_cases(HERE, LANGUAGES, options.only):
            reason = why_not_here(case)
            if reason:
                skipped[case.name] = reason
                print_line("skipped", case.name, reason)
                continue
            waiting.append((case, built(case, builder)))  # all are built first: a build beside a case would disturb it
        for done in concurrent.futures.as_completed([pool.submit(run_case, *one, options) for one in waiting]):
            results.append(done.result())
    except KeyboardInterrupt:
        print("stopped; the table has the cases up to here", flush=True)
        pool.shutdown(wait=True, cancel_futures=True)
    finally:
        pool.shutdown(wait=True)
        builder.close()
    order = {language: place for place, language in enumerate(LANGUAGES)}
    return sorted(results, key=lambda result: (order[result["language"]], result["case"])), skipped


def write_results(path, results, skipped):
    scored = [{**{key: result[key] for key in ("case", "healthy", "causes", "failure", "answer")},
               **(result["score"].as_dict() if result["score"] else {"score": None})} for result in results]
    Path(path).write_text(json.dumps({"results": scored, "skipped": skipped}, indent=1) + "\n")


def parse_options(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("highwater", help="the tool's binary")
    parser.add_argument("--only", type=lambda text: [part for part in text.split(",") if part], default=[])
    parser.add_argument("--seconds", type=int, default=30, help="how long each case is observed")
    parser.add_argument("--jobs", type=int, default=1, help="cases at a time")
    parser.add_argument("--started", action="store_true", help="the tool starts the programs: explain -- CMD")
    parser.add_argument("--allow-pause", help="handed on to the tool, such as 1s")
    parser.add_argument("--out", help="a file for all answers and scores, as JSON")
    options = parser.parse_args(arguments)
    found = shutil.which(options.highwater)
    if found is None:
        parser.error(f"{options.highwater} is no program; build the tool and name its binary")
    options.highwater = os.path.abspath(found)
    return options


def main():
    options = parse_options(sys.argv[1:])
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that a case's process never outlives this one
    results, skipped = run_all(options)
    if results:
        print()
        print_table(summary(results))
        print()
        print_table(confusion(results))
    print(f"{len(results)} cases run, {len(skipped)} skipped")
    if options.out:
        write_results(options.out, results, skipped)


if __name__ == "__main__":
    main()
