"""Cases of the corpus: finds, builds, starts and ends them. Both runners use it."""
import contextlib
import copy
import os
import shutil
import subprocess
import tempfile
import tomllib
from dataclasses import dataclass
from pathlib import Path

SECONDS_TO_BUILD = 900
# In the order of the tables.
LANGUAGES = ("c", "cpp", "rust", "zig", "python", "go", "java", "node")
ROOT = Path(__file__).resolve().parent
# Rust programs share what they build, and it stays for the next run.
RUST_TARGET = ROOT.parent / "target" / "corpus-rust"


class CaseFailed(Exception):
    """The case did not come as far as an answer: the build, the start or the tool failed."""


@dataclass
class Case:
    name: str  # folder, or folder:variant, or folder:variant@allocator
    folder: Path
    expected: dict  # of the variant
    over: str | None = None  # an allocator to preload, such as jemalloc@5.3.0

    @property
    def language(self):
        return self.name.split("/")[0]


def load_cases(root, languages, only):
    """The cases below a folder, in the order of the languages; `only` takes parts of their names."""
    cases = []
    for language in languages:
        for path in sorted((root / language).glob("*/expected.toml")):
            cases += variants_of(f"{language}/{path.parent.name}", path)
    return [case for case in cases if not only or any(part in case.name for part in only)]


def variants_of(name, path):
    """One case, or one for each of its variants, and once more for each allocator that is preloaded."""
    whole = tomllib.loads(path.read_text())
    variants = whole.pop("variants", None)
    found = []
    for variant, changes in (variants or {None: {}}).items():
        expected = copy.deepcopy(whole) | changes
        whole_name = name if variant is None else f"{name}:{variant}"
        if not expected.get("over_only"):
            found.append(Case(whole_name, path.parent, expected))
        for over in expected.get("over", []):
            found.append(Case(f"{whole_name}@{over.replace('@', '-')}", path.parent, expected, over))
    return found


def find_program(name):
    """A program's path, or None. Shims of pyenv are passed over: they stand there for versions that are not active."""
    folders = [folder for folder in os.environ.get("PATH", "").split(os.pathsep) if Path(folder).name != "shims"]
    found = shutil.which(name, path=os.pathsep.join(folders))
    if found is None and name.startswith("python3."):
        version = name.removeprefix("python")
        installed = sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/{name}"))
        found = str(installed[-1]) if installed else None
    if found is None and name == "zig":
        installed = sorted(cache().glob("ziglang-*/venv/lib/python*/site-packages/ziglang/zig"))
        found = str(installed[-1]) if installed else None
    return found


def cache():
    """Where highwater keeps what it fetches."""
    return Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "highwater"


def allocator_library(name):
    """The shared library of an allocator that highwater has fetched, or None."""
    folder = Path(os.environ.get("HIGHWATER_CACHE", cache())) / "allocators"
    found = sorted(folder.glob(f"{name}/lib*.so*"))
    return str(found[0]) if found else None


def commands_of(expected):
    """The commands that build a case: none, one or several."""
    build = expected.get("build") or []
    return build if build and isinstance(build[0], list) else [build] if build else []


def why_not_here(case):
    """Why the case cannot run on this machine, or None."""
    for command in [*commands_of(case.expected), case.expected["command"]]:
        program = command[0]
        if not program.startswith(("./", "{")) and find_program(program) is None:
            return f"{program} is not installed"
    if case.over and allocator_library(case.over) is None:
        return f"{case.over} is not fetched: highwater allocators add {case.over}"
    return None


class Builder:
    """Builds each source once, in a copy whose path gives nothing away; cargo's packages where they lie."""

    def __init__(self):
        self.temporary = tempfile.TemporaryDirectory(prefix="case-")
        # Another user watches without root.
        os.chmod(self.temporary.name, 0o755)
        self.built = {}

    def folder_of(self, case):
        """Where the case's program lies, built."""
        commands = commands_of(case.expected)
        key = (case.folder, repr(commands))
        if key not in self.built:
            self.built[key] = self.build(case, commands, len(self.built))
        if isinstance(self.built[key], CaseFailed):
            raise self.built[key]
        return self.built[key]

    def build(self, case, commands, number):
        try:
            folder = self.copy_of(case.folder, number)
            for command in commands:
                run_build(command, folder)
            return folder
        except CaseFailed as failure:
            return failure

    def copy_of(self, source, number):
        if (source / "Cargo.toml").exists():
            return source
        # Two levels of folders, as in the corpus: sources include what lies in ../ and ../../common.
        root = Path(self.temporary.name) / str(number)
        folder = root / "programs" / "case"
        ignored = shutil.ignore_patterns("expected.toml", "__pycache__")
        if (source.parent / "go.mod").exists():
            shutil.copytree(source.parent, root / "programs", ignore=ignored)
            return (root / "programs" / source.name).rename(folder)
        shutil.copytree(source, folder, ignore=ignored)
        for shared in source.parent.iterdir():
            if shared.is_file():
                shutil.copy(shared, folder.parent)
        common = source.parent.parent / "common"
        if common.is_dir():
            shutil.copytree(common, root / "common")
        return folder

    def close(self):
        self.temporary.cleanup()


def run_build(command, folder):
    environment = {**os.environ, "CARGO_TARGET_DIR": str(RUST_TARGET)}
    try:
        done = subprocess.run(resolved(command, folder), cwd=folder, env=environment, capture_output=True, text=True,
                              timeout=SECONDS_TO_BUILD)
    except subprocess.TimeoutExpired:
        raise CaseFailed(f"the build took over {SECONDS_TO_BUILD} s") from None
    if done.returncode != 0:
        raise CaseFailed(f"the build failed: {last_line(done.stderr)}")


def resolved(command, folder):
    """The command with its program's whole path, and {target} where cargo builds."""
    words = [word.replace("{target}", str(RUST_TARGET)) for word in command]
    if words[0].startswith("./"):
        return [str(folder / words[0]), *words[1:]]
    return [find_program(words[0]) or words[0], *words[1:]]


@contextlib.contextmanager
def running(command, folder, **options):
    """The case's process. However the block is left, the process is ended: SIGTERM, then SIGKILL."""
    process = subprocess.Popen(command, cwd=folder, stdin=subprocess.DEVNULL, **options)
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
            if process.stdout:
                process.stdout.close()


def last_line(text):
    lines = text.strip().splitlines()
    return lines[-1] if lines else ""


def print_line(word, name, text, width=140):
    text = " ".join(text.split())
    print(f"{word:7}  {name}: {text if len(text) <= width else text[:width - 3] + '...'}", flush=True)


def print_table(rows):
    widths = {key: max(len(key), *(len(str(row[key])) for row in rows)) for key in rows[0]}
    for row in [{key: key for key in widths}, *rows]:
        print("  ".join(str(row[key]).ljust(width) for key, width in widths.items()).rstrip())
