"""CPython's own test suite, each test's result: memory, threads, processes, signals, extension modules."""
import importlib.util
import subprocess
import sys
import xml.etree.ElementTree

from launch import Skipped
from programs._program import RealProgram

TESTS = ("test_dict test_list test_json test_re test_thread test_os test_fork1 test_gc test_pickle test_ctypes "
         "test_sqlite3 test_mmap test_zlib test_memoryview test_array test_bytes test_resource test_hashlib test_weakref "
         "test_tracemalloc test_select test_io test_signal test_subprocess").split()


class Program(RealProgram):
    name, workload = "cpython", f"{len(TESTS)} modules of its own test suite"
    processes = ("python",)

    def find(self, unpacked):
        found = subprocess.run([sys.executable, "-c", "import test.test_dict"], capture_output=True)
        if found.returncode != 0:
            raise Skipped("this python has no test suite")
        # Which modules there are depends on the version.
        self.tests = [name for name in TESTS if importlib.util.find_spec(f"test.{name}")]

    def version(self):
        return sys.version.split()[0]

    def round(self, launch):
        report = launch.folder / "report.xml"
        command = [sys.executable, "-m", "test", "-q", "--timeout", "120", "--junit-xml", report, *self.tests]
        done = launch.run(command, {"PYTHONMALLOC": "malloc"}, seconds=900)
        if not report.exists():
            # Nothing ran: a result that would be the same in every arm.
            raise RuntimeError(f"no report: {done.status}: {(done.out + done.errors)[-500:]}")
        results = {}
        for case in xml.etree.ElementTree.parse(report).iter("testcase"):
            name = case.get("name", "").split(".", 1)[-1]
            kinds = [part.tag for part in case if part.tag in ("failure", "error", "skipped")]
            results[name] = kinds[0] if kinds else case.get("result", "run")
        return {"exit status": done.status, "tests": results}
