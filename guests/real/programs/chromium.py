"""Chromium: the processes of a browser, pages with scripts, workers, WebAssembly, canvas, many nodes."""
import os
import re
import shutil
import subprocess

from launch import NOBODY, Skipped
from programs._program import RealProgram

PAGES = {
    # Some seconds: what lives shorter is gone before `explain` has begun.
    "objects": "<h1 id=a></h1><script>let sum=0,all;for(let r=0;r<25;r++){all=[];for(let i=0;i<300000;i++){"
               "all.push({i,t:'x'+i});sum+=i}}"
               "document.getElementById('a').textContent='sum '+sum</script>",
    "nodes": "<div id=a></div><script>const a=document.getElementById('a');for(let i=0;i<20000;i++){"
             "const p=document.createElement('p');p.textContent=i;a.appendChild(p)}let n=a.childNodes.length;"
             "a.textContent='nodes '+n</script>",
    "canvas": "<canvas id=c width=400 height=400></canvas><h1 id=a></h1><script>const c=document.getElementById('c')"
              ".getContext('2d');for(let i=0;i<500;i++){c.fillStyle='rgb('+i%255+',9,9)';c.fillRect(i%400,i%399,20,20)}"
              "const d=c.getImageData(0,0,400,400).data;let s=0;for(const v of d)s+=v;"
              "document.getElementById('a').textContent='pixels '+s</script>",
    "worker": "<h1 id=a></h1><script>const u=URL.createObjectURL(new Blob(['let s=0;for(let i=0;i<1e6;i++)s+=i%7;"
              "postMessage(s)']));const w=new Worker(u);w.onmessage=e=>{document.getElementById('a').textContent="
              "'worker '+e.data}</script>",
    "wasm": "<h1 id=a></h1><script>const b=new Uint8Array([0,97,115,109,1,0,0,0,1,7,1,96,2,127,127,1,127,3,2,1,0,7,7,1,3,"
            "97,100,100,0,0,10,9,1,7,0,32,0,32,1,106,11]);document.getElementById('a').textContent='wasm '+"
            "new WebAssembly.Instance(new WebAssembly.Module(b)).exports.add(40,2)</script>",
}


class Program(RealProgram):
    name, workload = "chromium", f"{len(PAGES)} pages: objects, nodes, canvas, a worker, WebAssembly"
    processes = ("chromium", "chrome", "ThreadPool")

    def find(self, unpacked):
        self.chromium = shutil.which("chromium")
        if not self.chromium:
            raise Skipped("no chromium on the PATH")

    def version(self):
        done = subprocess.run([self.chromium, "--version"], capture_output=True, text=True)
        return re.search(r"[\d.]+", done.stdout)[0]

    def round(self, launch):
        results = {}
        for name, page in PAGES.items():
            file = launch.folder / f"{name}.html"
            file.write_text(page)
            file.chmod(0o644)
            profile = launch.folder / f"profile-{len(os.listdir(launch.folder))}-{name}"
            command = [self.chromium, "--headless", "--disable-gpu", "--no-first-run", "--dump-dom", "--timeout=90000",
                       "--virtual-time-budget=8000", f"--user-data-dir={profile}", *self.sandbox(), f"file://{file}"]
            done = launch.run(command, {"XDG_CONFIG_HOME": str(launch.folder), "XDG_CACHE_HOME": str(launch.folder)},
                              self.user(), seconds=200)
            results[name] = [done.status, done.out]
            shutil.rmtree(profile, ignore_errors=True)
        return results

    def sandbox(self):
        return ["--no-sandbox"]

    def user(self):
        return None


class Sandboxed(Program):
    """With its sandbox: namespaces and seccomp filters in every renderer."""
    name = "chromium_sandboxed"
    workload = Program.workload + ", sandboxed"

    def sandbox(self):
        return []

    def user(self):
        return NOBODY
