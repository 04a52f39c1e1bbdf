"""Programs of Debian packages, unpacked into a folder of their own: nothing is installed."""
import hashlib
import os
import pathlib
import shutil
import subprocess

import pypi
from launch import Skipped


# Allocators that can be preloaded under every arm: package and library.
ALLOCATORS = {"jemalloc": ("libjemalloc2", "libjemalloc.so.2"), "mimalloc": ("libmimalloc2.0", "libmimalloc.so.2.0")}


class Unpacked:
    """A root folder with some packages and all that they need and this machine does not have."""

    def __init__(self, root):
        self.root = pathlib.Path(root)

    def program(self, name):
        """The unpacked program of this name, else the installed one."""
        for folder in ("usr/bin", "usr/sbin", "usr/lib/postgresql/15/bin", "lib/systemd"):
            if (file := self.root / folder / name).exists():
                return str(file)
        for folder in ("/usr/lib/postgresql/15/bin", "/lib/systemd"):
            if (file := pathlib.Path(folder) / name).exists():
                return str(file)
        if found := shutil.which(name):
            return found
        raise Skipped(f"no {name} here, and none in its package")

    @property
    def libraries(self):
        """For LD_LIBRARY_PATH."""
        folders = (self.root / "usr/lib/x86_64-linux-gnu", self.root / "lib/x86_64-linux-gnu",
                   self.root / "lib/systemd", self.root / "usr/lib/systemd")
        return ":".join(str(folder) for folder in folders if folder.is_dir())

    def environment(self, **more):
        return {"LD_LIBRARY_PATH": self.libraries, **more} if self.libraries else more


class Packages:
    """Fetches what programs need, once for each `cache` folder."""

    def __init__(self, cache):
        self.cache = pathlib.Path(cache)

    def __call__(self, *packages):
        return unpacked(self.cache, packages)

    def allocator(self, name):
        """The library of an allocator of the table; any other name is a file's."""
        if name not in ALLOCATORS:
            return name
        package, library = ALLOCATORS[name]
        return str(next(self(package).root.glob(f"usr/lib/*/{library}")))

    def wheel(self, name):
        """The folder of a package of PyPI."""
        return pypi.unpacked(self.cache, name)

    def system(self, *packages):
        """A whole small Debian with these packages: its folder."""
        root = self.cache / ("system-" + hashlib.sha256(" ".join(packages).encode()).hexdigest()[:8])
        if not root.is_dir():
            new = root.with_name(f"{root.name}.{os.getpid()}")
            command = ["debootstrap", "--variant=minbase", f"--include={','.join(packages)}", "bookworm", new]
            try:
                subprocess.run(command, check=True, capture_output=True, timeout=600)
                new.rename(root)
            except (OSError, subprocess.SubprocessError) as error:
                raise Skipped(f"a Debian with {' '.join(packages)} cannot be had: {error}") from error
            finally:
                shutil.rmtree(new, ignore_errors=True)
        return root


def unpacked(cache, packages):
    """Fetches packages once for each `cache` folder."""
    name = packages[0] + "-" + hashlib.sha256(" ".join(packages).encode()).hexdigest()[:8]
    root = pathlib.Path(cache) / name
    if root.is_dir():
        return Unpacked(root)
    new = root.with_name(f"{name}.{os.getpid()}")
    try:
        fetch(new, packages)
        new.rename(root)
    except (OSError, subprocess.SubprocessError) as error:
        raise Skipped(f"the packages {' '.join(packages)} cannot be had: {error}") from error
    finally:
        shutil.rmtree(new, ignore_errors=True)
    return Unpacked(root)


def fetch(folder, packages):
    """By apt, with what the packages need, and without the database of installed packages being locked."""
    archives = folder / "archives"
    (archives / "partial").mkdir(parents=True)
    options = ["-o", "Debug::NoLocking=1", "-o", f"Dir::Cache::Archives={archives.resolve()}"]
    command = ["apt-get", "-y", "-qq", "--download-only", "--no-install-recommends", *options, "install", *packages]
    subprocess.run(command, check=True, capture_output=True, timeout=240)
    for package in sorted(archives.glob("*.deb")):
        subprocess.run(["dpkg", "-x", package, folder], check=True, capture_output=True, timeout=60)
    shutil.rmtree(archives)
