"""A Python program with threads, children, ctypes, sqlite3 and extension modules that allocate."""
import sys

from launch import Skipped
from programs._program import RealProgram

SCRIPT = r'''
import concurrent.futures, ctypes, gc, hashlib, json, mmap, multiprocessing, os, re, sqlite3, subprocess, sys, zlib
scale = int(sys.argv[1])
digest = hashlib.sha256()
def note(value):
    digest.update(repr(value).encode())
def work(n):
    rows = [{"key": f"k{i}", "values": list(range(i % 40)), "text": "x" * (i % 300)} for i in range(n)]
    text = json.dumps(rows)
    return len(re.findall("k[0-9]+", text)), zlib.crc32(zlib.compress(text.encode())), json.loads(text) == rows
with concurrent.futures.ThreadPoolExecutor(8) as pool:
    note(list(pool.map(work, [1000 + n for n in range(4 * scale)])))
with multiprocessing.get_context("fork").Pool(3) as pool:
    note(pool.map(work, [500 + n for n in range(3 * scale)]))
with multiprocessing.get_context("spawn").Pool(1) as pool:
    note(pool.map(len, [[1, 2], [3]]))
base = sqlite3.connect(":memory:")
base.execute("create table t (a integer primary key, b text)")
base.executemany("insert into t values (?, ?)", ((n, str(n) * (n % 50)) for n in range(20000 * scale)))
note(base.execute("select count(*), sum(length(b)) from t where a % 3 = 1").fetchall())
libc = ctypes.CDLL(None, use_errno=True)
libc.malloc.restype, libc.free.argtypes = ctypes.c_void_p, [ctypes.c_void_p]
for size in [0, 1, 4096, 1 << 20] * 200:
    libc.free(libc.malloc(size))
libc.malloc.argtypes = [ctypes.c_size_t]
note((libc.malloc(2 ** 63), ctypes.get_errno()))
area = mmap.mmap(-1, 1 << 22)
area[:5] = b"bytes"
note(bytes(area[:6]))
note(subprocess.run(["sh", "-c", "echo child; exit 7"], capture_output=True).stdout)
gc.collect()
# Not all of them: a pool closes some at a moment of its own.
note([os.path.exists(f"/proc/self/fd/{number}") for number in range(3)])
print(digest.hexdigest())
sys.exit(42)
'''


class Program(RealProgram):
    name, workload = "python", "threads, fork and spawn pools, json, sqlite3, ctypes, mmap"
    processes = ("python",)

    def version(self):
        return sys.version.split()[0]

    def find(self, unpacked):
        if not sys.executable:
            raise Skipped("no python")

    def round(self, launch):
        script = launch.folder / "script.py"
        # A guard, for the pool that spawns imports the script again.
        body = SCRIPT.replace("\n", "\n    ")
        script.write_text(f"if __name__ == '__main__':\n    {body}")
        done = launch.run([sys.executable, script, "1" if self.is_short else "4"], {"PYTHONMALLOC": "malloc"})
        return {"exit status": done.status, "output": done.out, "errors": done.errors}
