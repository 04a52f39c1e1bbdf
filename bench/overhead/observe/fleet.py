"""Processes to observe: fleet.c, many times."""
import contextlib
import pathlib
import subprocess
import time

from harness import compile_c

SOURCE = pathlib.Path(__file__).with_suffix(".c")


@contextlib.contextmanager
def fleet(folder, count):
    """The program and the process ids, a second after their start; they end with their standard input."""
    program = compile_c(SOURCE, pathlib.Path(folder) / "fleet", "-O1", "-pthread")
    processes = [subprocess.Popen([program], stdin=subprocess.PIPE) for _ in range(count)]
    try:
        time.sleep(1)
        yield program, [process.pid for process in processes]
    finally:
        for process in processes:
            process.stdin.close()
        for process in processes:
            process.wait()
