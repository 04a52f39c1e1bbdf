"""GCC: the driver, the compiler, the assembler and the linker; the same program comes out."""
import hashlib
import shutil
import subprocess

from launch import Skipped
from programs._program import RealProgram

SOURCE = """#include <algorithm>
#include <iostream>
#include <map>
#include <string>
#include <vector>
template <int N> struct T { std::map<std::string, std::vector<int>> m; int f() { m["a"].push_back(N);
  std::sort(m["a"].begin(), m["a"].end()); return (int)m["a"].size() + T<N - 1>().f(); } };
template <> struct T<0> { int f() { return 0; } };
int main() { std::cout << T<DEPTH>().f() << std::endl; }
"""


class Program(RealProgram):
    name, workload = "gcc", "a C++ program with templates and with -flto; one with an error"
    processes = ("cc1plus", "lto1", "collect2")

    def find(self, unpacked):
        if not shutil.which("g++"):
            raise Skipped("no g++ on the PATH")

    def version(self):
        return subprocess.run(["g++", "-dumpfullversion"], capture_output=True, text=True).stdout.strip()

    def round(self, launch):
        (launch.folder / "source.cpp").write_text(SOURCE)
        depth = 20 if self.is_short else 100
        results = {}
        for flags in (["-O1"], ["-O2", "-g", "-flto=2"])[:1 if self.is_short else 2]:
            done = launch.run(["g++", *flags, f"-DDEPTH={depth}", "-frandom-seed=1", "source.cpp", "-o", "program"])
            made = launch.tool([launch.folder / "program"]).out if done.status == 0 else ""
            data = (launch.folder / "program").read_bytes() if done.status == 0 else b""
            results[" ".join(flags)] = [done.status, done.errors, made]
            results["program of " + " ".join(flags)] = hashlib.sha256(data).hexdigest()
        done = launch.run(["g++", "-DDEPTH=no", "source.cpp"])
        results["an error"] = [done.status, done.errors]
        return results
