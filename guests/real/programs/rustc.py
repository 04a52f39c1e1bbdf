"""The Rust compiler: its own jemalloc, LLVM's threads, the linker as a child; the same program comes out."""
import hashlib
import os
import pathlib
import shutil
import subprocess

from launch import Skipped
from programs._program import RealProgram


def source(types):
    """Functions of many types."""
    lines = ["use std::collections::*;"]
    for n in range(types):
        lines += [f"#[derive(Debug, Clone, Default)] struct T{n} {{ a: Vec<Vec<u{8 << n % 4}>>, b: BTreeMap<String, u8> }}",
                  f"fn f{n}(x: usize) -> usize {{ let t = T{n} {{ a: vec![vec![1; {n}]; x], ..T{n}::default() }};"
                  f" format!(\"{{t:?}}\").len() + t.b.len() }}"]
    calls = " + ".join(f"f{n}(1)" for n in range(types))
    return "\n".join([*lines, f"fn main() {{ println!(\"{{}}\", {calls}); }}"])


class Program(RealProgram):
    name, workload = "rustc", "200 types with derives, optimised, 4 threads of LLVM; one with an error"
    processes = ("rustc", "opt cgu", "coordinator")

    def find(self, unpacked):
        if not shutil.which("rustc"):
            raise Skipped("no rustc on the PATH")
        root = subprocess.run(["rustc", "--print", "sysroot"], capture_output=True, text=True).stdout.strip()
        # The compiler itself, not the program that chooses one.
        self.rustc = str(pathlib.Path(root) / "bin/rustc")

    def version(self):
        return subprocess.run([self.rustc, "--version"], capture_output=True, text=True).stdout.split()[1]

    def round(self, launch):
        (launch.folder / "types.rs").write_text(source(20 if self.is_short else 200))
        (launch.folder / "bad.rs").write_text("fn main() { let x: u8 = \"a\"; }")
        place = {"PATH": os.environ["PATH"]}
        made = launch.run([self.rustc, "--edition=2021", "-Copt-level=1", "-Ccodegen-units=4", "types.rs", "-o", "types"],
                          place)
        data = (launch.folder / "types").read_bytes() if made.status == 0 else b""
        out = launch.tool([launch.folder / "types"]).out if made.status == 0 else ""
        bad = launch.run([self.rustc, "--edition=2021", "bad.rs"], place)
        return {"exit status": made.status, "errors": made.errors, "program": hashlib.sha256(data).hexdigest(),
                "its output": out, "an error": [bad.status, bad.errors]}
