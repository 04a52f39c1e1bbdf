"""Ruff: jemalloc linked in, with its names stripped; a pool of threads that parse all of Python's library."""
import hashlib
import os
import re
import shutil
import subprocess

from launch import Skipped
from programs._program import RealProgram


class Program(RealProgram):
    name, workload = "ruff", "all rules over Python's own library, sorted findings; a formatted copy of a part of it"
    processes = ("ruff",)

    def find(self, unpacked):
        found = next(unpacked.wheel("ruff").glob("ruff-*.data/scripts/ruff"), None)
        if found is None:
            raise Skipped("no ruff in its package")
        found.chmod(0o755)
        self.ruff = found
        self.library = os.path.dirname(os.__file__)

    def version(self):
        return subprocess.run([self.ruff, "--version"], capture_output=True, text=True).stdout.split()[1]

    def round(self, launch):
        place = self.library if not self.is_short else os.path.join(self.library, "asyncio")
        checked = launch.run([self.ruff, "check", "--no-cache", "--isolated", "--select", "ALL", "--output-format", "concise",
                              place])
        copy = launch.folder / "copy"
        shutil.copytree(os.path.join(self.library, "email"), copy, ignore=shutil.ignore_patterns("__pycache__"))
        formatted = launch.run([self.ruff, "format", "--no-cache", "--isolated", "copy"])
        files = hashlib.sha256(b"".join(file.read_bytes() for file in sorted(copy.rglob("*.py"))))
        shutil.rmtree(copy)
        return {"exit status": [checked.status, formatted.status], "findings": digest(checked.out),
                "count": re.findall(r"Found (\d+) errors", checked.out), "errors": digest(checked.errors + formatted.errors),
                "output": formatted.out, "formatted": files.hexdigest()}


def digest(text):
    return hashlib.sha256("\n".join(sorted(text.splitlines())).encode()).hexdigest()
