#!/usr/bin/env python3
"""Runs the services of this folder, watches each with the tool, and scores its rows.

    run.py HIGHWATER [--only a,b] [--seconds 12] [--rootless] [--dry] [--out results.json]

HIGHWATER is the tool's binary. --only takes parts of case names such as `c/store` or `healthy`. As root, or with
--rootless as the user nobody. --dry watches nothing and prints what each service's requests took. Exit code: 0 if it ran.
"""
import argparse
import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
from cases import (LANGUAGES, Builder, CaseFailed, last_line, load_cases, print_line, print_table, resolved,  # noqa: E402
                   running, why_not_here)
from scoring import confusion, is_healthy, score, summary  # noqa: E402

NOBODY = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
SECONDS_TO_SETTLE = 3
SECONDS_TO_ANSWER = 60  # beyond the observation itself
SECONDS_OF_SERVICE = 120


def free_port():
    """A port of which the next one is free too: a service's peer listens there."""
    for port in range(21_000 + os.getpid() % 400 * 20, 32_000, 2):
        with contextlib.suppress(OSError), socket.socket() as first, socket.socket() as second:
            first.bind(("127.0.0.1", port))
            second.bind(("127.0.0.1", port + 1))
            return port
    raise CaseFailed("no free port below 32000")


@contextlib.contextmanager
def cpu_quota(pid, quota):
    """A control group with `quota` ("8000/100000", microseconds of each period) for the process, if one is wanted."""
    if quota is None:
        yield
        return
    used, period = quota.split("/")
    old = Path("/sys/fs/cgroup/cpu")
    folder = (old if (old / "cpu.cfs_quota_us").exists() else Path("/sys/fs/cgroup")) / f"corpus-{pid}"
    try:
        folder.mkdir()
        if folder.parent == old:
            (folder / "cpu.cfs_period_us").write_text(period)
            (folder / "cpu.cfs_quota_us").write_text(used)
        else:
            (folder / "cpu.max").write_text(f"{used} {period}")
        (folder / "cgroup.procs").write_text(str(pid))
    except OSError as error:
        raise CaseFailed(f"a CPU quota is not possible: {error}") from None
    try:
        yield
    finally:
        (folder.parent / "cgroup.procs").write_text(str(pid))
        for _ in range(20):
            with contextlib.suppress(OSError):
                folder.rmdir()
                break
            time.sleep(0.1)


@contextlib.contextmanager
def processes_on_every_cpu(load, wanted):
    """Two processes for each CPU that do nothing but compute, if wanted."""
    command = [load, "hog", str(SECONDS_OF_SERVICE)]
    started = [subprocess.Popen(command) for _ in range(2 * (os.cpu_count() or 2) if wanted else 0)]
    try:
        yield
    finally:
        for process in started:
            process.kill()
            process.wait()


def watch(pid, options, tool):
    """The tool's rows about a process."""
    if options.dry:
        time.sleep(options.seconds)
        return []
    words = [*tool, "stalls", "--json", "--pid", str(pid), "--duration", str(options.seconds)]
    limit = options.seconds + SECONDS_TO_ANSWER
    try:
        done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", cwd="/",
                              timeout=limit)
    except subprocess.TimeoutExpired:
        raise CaseFailed(f"the tool did not answer within {limit} s") from None
    try:
        return json.loads(done.stdout)["findings"]
    except (ValueError, KeyError):
        raise CaseFailed(f"the tool ended with {done.returncode} and no findings: {last_line(done.stderr)}") from None


def run_case(case, builder, options, tool):
    """Starts one service and watches it: (rows, what its requests took meanwhile)."""
    expected = case.expected
    folder = builder.folder_of(case)
    command = resolved([*expected["command"], *expected.get("arguments", [])], folder)
    place_load(builder, command, folder)
    with tempfile.TemporaryDirectory(prefix="service-") as data:
        os.chmod(data, 0o777)
        truth = Path(data) / "truth.json"
        command += ["--port", str(free_port()), "--dir", data, "--truth", str(truth), "--secs", str(SECONDS_OF_SERVICE)]
        said = Path(data) / "output"
        with open(said, "w") as output:
            as_user = NOBODY if options.rootless else []
            with running([*as_user, *command], folder, stdout=output, stderr=output) as process:
                time.sleep(1)
                with (cpu_quota(process.pid, expected.get("quota")),
                      processes_on_every_cpu(builder.load, expected.get("hogs"))):
                    time.sleep(SECONDS_TO_SETTLE - 1)
                    if process.poll() is not None:
                        raise CaseFailed(f"the service ended with {process.returncode}: {last_line(said.read_text())}")
                    start = time.monotonic()
                    rows = watch(process.pid, options, tool)
                    end = time.monotonic()
                    if process.poll() is not None:
                        raise CaseFailed(f"the service ended with {process.returncode} while it was watched")
        return rows, requests_between(truth, start, end)


def place_load(builder, command, folder):
    """Services start their clients from the program `load` that lies beside them."""
    scripts = [Path(word) for word in command[1:] if not word.startswith("-") and (folder / word).is_file()]
    beside = folder if scripts or command[0].endswith("/java") else Path(command[0]).parent
    # One that still runs is replaced, not written to; what cargo builds stays from one run to the next.
    shutil.copy(builder.load, beside / "load.new")
    os.replace(beside / "load.new", beside / "load")


def requests_between(truth, start, end):
    """What the service's client measured while it was watched."""
    for _ in range(30):
        with contextlib.suppress(OSError, ValueError):
            told = json.loads(truth.read_text())
            slow = [one for one in told["slow"] if start < one[0] + one[1] / 1e3 and one[0] < end]
            return {"requests": told["n"], "p50_ms": told["p50_ms"], "errors": told["errors"], "slow": len(slow),
                    "longest_ms": max((one[1] for one in slow), default=0)}
        time.sleep(0.1)
    return None


def described(result):
    """One line: what was answered, and what the requests took."""
    rows = [f"{row['cause']} by {(row.get('culprit') or {}).get('function')}" for row in result["rows"]]
    took = result["requests"]
    truth = (f"{took['slow']} of {took['requests']} slow, longest {took['longest_ms']:.0f} ms, p50 {took['p50_ms']:.2f} ms"
             if took else "its client wrote nothing")
    return f"{'; '.join(rows) or 'no row'} [{truth}]"


def prepared(options):
    """The builder, with the load program, and the tool's command for the user that watches."""
    builder = Builder()
    builder.load = str(Path(builder.temporary.name) / "load")
    source = HERE / "common" / "load.c"
    done = subprocess.run(["gcc", "-O2", "-g", "-pthread", str(source), "-o", builder.load], capture_output=True, text=True)
    if done.returncode:
        raise CaseFailed(f"common/load.c was not compiled: {last_line(done.stderr)}")
    if not options.rootless:
        return builder, [options.highwater]
    # The user nobody may not be able to read the folder that the tool lies in.
    tool = Path(builder.temporary.name) / "highwater"
    shutil.copy(options.highwater, tool)
    os.chmod(tool, 0o755)
    return builder, [*NOBODY, str(tool)]


def run_all(options):
    results, skipped = [], {}
    builder, tool = prepared(options)
    try:
        for case in load_cases(HERE, LANGUAGES, options.only):
            reason = why_not_here(case)
            if options.rootless and case.expected.get("rootless") is False:
                reason = "cannot be seen without root"
            if reason:
                skipped[case.name] = reason
                print_line("skipped", case.name, reason)
                continue
            results.append(result_of(case, builder, options, tool))
    except KeyboardInterrupt:
        print("stopped; the table has the cases up to here", flush=True)
    finally:
        builder.close()
    return results, skipped


def result_of(case, builder, options, tool):
    result = {"case": case.name, "language": case.language, "expected": case.expected, "score": None, "rows": [],
              "requests": None, "failure": None}
    try:
        result["rows"], result["requests"] = run_case(case, builder, options, tool)
        result["score"] = score(case.expected, result["rows"])
        print_line("dry" if options.dry else result["score"].word, case.name, described(result), 240)
    except CaseFailed as failure:
        result["failure"] = str(failure)
        print_line("failed", case.name, str(failure), 240)
    return result


def write_results(path, results, skipped):
    scored = [{**{key: result[key] for key in ("case", "failure", "requests", "rows")},
               "healthy": is_healthy(result["expected"]),
               **(result["score"].as_dict() if result["score"] else {"score": None})} for result in results]
    Path(path).write_text(json.dumps({"results": scored, "skipped": skipped}, indent=1) + "\n")


def parse_options(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("highwater", help="the tool's binary")
    parser.add_argument("--only", type=lambda text: [part for part in text.split(",") if part], default=[])
    parser.add_argument("--seconds", type=int, default=12, help="how long each service is watched")
    parser.add_argument("--rootless", action="store_true", help="service and tool run as the user nobody")
    parser.add_argument("--dry", action="store_true", help="watch nothing: only what the requests took")
    parser.add_argument("--out", help="a file for all rows and scores, as JSON")
    options = parser.parse_args(arguments)
    found = shutil.which(options.highwater)
    if found is None:
        parser.error(f"{options.highwater} is no program; build the tool and name its binary")
    options.highwater = os.path.abspath(found)
    return options


def main():
    options = parse_options(sys.argv[1:])
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that a service never outlives this process
    try:
        results, skipped = run_all(options)
    except CaseFailed as failure:
        sys.exit(f"run.py: {failure}")
    if results and not options.dry:
        print()
        print_table(summary(results))
        print()
        print_table(confusion(results))
    print(f"{len(results)} variants run, {len(skipped)} skipped")
    if options.out:
        write_results(options.out, results, skipped)


if __name__ == "__main__":
    main()
