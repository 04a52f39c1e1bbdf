"""git: a repository made, packed with threads, checked, cloned."""
import shutil
import subprocess

from launch import Skipped
from programs._program import RealProgram

DATES = {"GIT_AUTHOR_DATE": "1700000000 +0000", "GIT_COMMITTER_DATE": "1700000000 +0000", "GIT_AUTHOR_NAME": "a",
         "GIT_AUTHOR_EMAIL": "a@b", "GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@b", "GIT_CONFIG_NOSYSTEM": "1"}


class Program(RealProgram):
    name, workload = "git", "commits, gc, fsck, clone"
    processes = ("git",)

    def find(self, unpacked):
        if not shutil.which("git"):
            raise Skipped("no git on the PATH")

    def version(self):
        return subprocess.run(["git", "--version"], capture_output=True, text=True).stdout.split()[-1]

    def round(self, launch):
        place = launch.folder / "repository"
        shutil.rmtree(place, ignore_errors=True)
        shutil.rmtree(launch.folder / "clone", ignore_errors=True)
        place.mkdir()
        ends = []

        def git(*words):
            done = launch.run(["git", *words], DATES, cwd=place)
            ends.append([words[0], done.status, done.out])

        git("init", "-q", "-b", "main")
        for commit in range(3 if self.is_short else 20):
            for number in range(200):
                text = "".join(f"{line * commit * number}\n" for line in range(100))
                (place / f"file{number}").write_text(text)
            git("add", "-A")
            git("commit", "-q", "-m", f"commit {commit}")
        git("gc", "-q", "--aggressive")
        git("fsck", "--full")
        git("clone", "-q", "--no-local", str(place), str(launch.folder / "clone"))
        git("log", "--format=%H", "--stat")
        return {"commands": ends}
