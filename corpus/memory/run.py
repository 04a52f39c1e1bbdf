#!/usr/bin/env python3
"""Runs the cases of this folder, asks the tool about each, and scores its answers.

    run.py HIGHWATER [--only a,b] [--seconds 30] [--allow-pause 1s] [--out results.json]

HIGHWATER is the tool's binary. --only takes parts of case names such as `python/sessions`. Exit code: 0 if it ran.
"""
import argparse
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import tomllib
from pathlib import Path

from scoring import is_healthy, score, summary

HERE = Path(__file__).resolve().parent
LANGUAGES = ("python", "go", "java", "node")
SECONDS_UNTIL_READY = 120
SECONDS_TO_ANSWER = 120  # beyond the observation itself


class CaseFailed(Exception):
    """The case did not come as far as an answer: the build, the start or the tool failed."""


def find_program(name):
    """A program's path, or None. Shims of pyenv are passed over: they stand there for versions that are not active."""
    folders = [folder for folder in os.environ.get("PATH", "").split(os.pathsep) if Path(folder).name != "shims"]
    found = shutil.which(name, path=os.pathsep.join(folders))
    if found is None and name.startswith("python3."):
        version = name.removeprefix("python")
        installed = sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/{name}"))
        found = str(installed[-1]) if installed else None
    return found


def load_cases(only):
    """The cases as (name, expected), in the order of the languages."""
    cases = []
    for language in LANGUAGES:
        for path in sorted((HERE / language).glob("*/expected.toml")):
            name = f"{language}/{path.parent.name}"
            if not only or any(part in name for part in only):
                cases.append((name, tomllib.loads(path.read_text())))
    return cases


def missing_program(expected):
    """The first program that the case needs and this machine lacks, or None."""
    for command in (expected.get("build"), expected["command"]):
        if command and not command[0].startswith("./") and find_program(command[0]) is None:
            return command[0]
    return None


def resolved(command, folder):
    program = str(folder / command[0]) if command[0].startswith("./") else find_program(command[0])
    return [program, *command[1:]]


@contextlib.contextmanager
def running(command, folder, errors):
    """The case's process. However the block is left, the process is ended: SIGTERM, then SIGKILL."""
    process = subprocess.Popen(command, cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors,
                               text=True)
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(5)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        finally:
            if process.poll() is None:  # a second Ctrl-C came while it was ending
                process.kill()
            process.stdout.close()


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


def ask(tool, pid, seconds, allow_pause):
    """The tool's answer about a process, as parsed JSON."""
    command = [tool, "explain", "--json", "--quiet", "--pid", str(pid), "--duration", str(seconds)]
    if allow_pause:
        command += ["--allow-pause", allow_pause]
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              timeout=seconds + SECONDS_TO_ANSWER)
    except subprocess.TimeoutExpired:
        raise CaseFailed(f"the tool did not answer within {seconds + SECONDS_TO_ANSWER} s") from None
    try:
        answer = json.loads(done.stdout)
    except json.JSONDecodeError:
        answer = None
    if not isinstance(answer, dict):
        raise CaseFailed(f"the tool ended with {done.returncode} and no JSON object: {last_line(done.stderr)}")
    return answer


def last_line(text):
    lines = text.strip().splitlines()
    return lines[-1] if lines else ""


def run_case(name, expected, options):
    """Builds, starts and asks about one case, in a copy whose path gives nothing away."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) / "case"
        shutil.copytree(HERE / name, folder, ignore=shutil.ignore_patterns("expected.toml", "__pycache__"))
        if expected.get("build"):
            build = subprocess.run(resolved(expected["build"], folder), cwd=folder, capture_output=True, text=True)
            if build.returncode != 0:
                raise CaseFailed(f"the build failed: {last_line(build.stderr)}")
        with open(Path(temporary) / "errors", "w+") as errors:
            with running(resolved(expected["command"], folder), folder, errors) as process:
                try:
                    wait_until_ready(process)
                    return ask(options.highwater, process.pid, options.seconds, options.allow_pause)
                except CaseFailed as failure:
                    errors.seek(0)
                    said = last_line(errors.read())
                    raise CaseFailed(f"{failure}{'; it said: ' if said else ''}{said}") from None


def print_line(word, name, text, width=140):
    text = " ".join(text.split())
    print(f"{word:7}  {name}: {text if len(text) <= width else text[:width - 3] + '...'}", flush=True)


def print_table(rows):
    widths = {key: max(len(key), *(len(str(row[key])) for row in rows)) for key in rows[0]}
    for row in [{key: key for key in widths}, *rows]:
        print("  ".join(str(row[key]).ljust(width) for key, width in widths.items()).rstrip())


def write_results(path, results, skipped):
    scored = [{"case": result["case"], "healthy": result["healthy"], "failure": result["failure"],
               "answer": result["answer"], **(result["score"].as_dict() if result["score"] else {"score": None})}
              for result in results]
    Path(path).write_text(json.dumps({"results": scored, "skipped": skipped}, indent=1) + "\n")


def run_all(options):
    results, skipped = [], {}
    try:
        for name, expected in load_cases(options.only):
            program = missing_program(expected)
            if program:
                skipped[name] = f"{program} is not installed"
                print_line("skipped", name, skipped[name])
                continue
            result = {"case": name, "language": name.split("/")[0], "healthy": is_healthy(expected),
                      "score": None, "answer": None, "failure": None}
            try:
                result["answer"] = run_case(name, expected, options)
                result["score"] = score(expected, result["answer"])
                print_line(result["score"].word, name, f"{result['score'].cause}: {result['score'].sentence}")
            except CaseFailed as failure:
                result["failure"] = str(failure)
                print_line("failed", name, str(failure))
            results.append(result)
    except KeyboardInterrupt:
        print("stopped; the table has the cases up to here", flush=True)
    return results, skipped


def parse_options(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("highwater", help="the tool's binary")
    parser.add_argument("--only", type=lambda text: [part for part in text.split(",") if part], default=[])
    parser.add_argument("--seconds", type=int, default=30, help="how long each case is observed")
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
    print(f"{len(results)} cases run, {len(skipped)} skipped")
    if options.out:
        write_results(options.out, results, skipped)


if __name__ == "__main__":
    main()
