"""Node: worker threads, Buffers, zlib, children, wasm."""
import shutil
import subprocess

from launch import Skipped
from programs._program import RealProgram

SCRIPT = r'''
const { Worker, isMainThread, parentPort, workerData } = require('worker_threads');
const crypto = require('crypto'), zlib = require('zlib'), child = require('child_process');
function work(seed, n) {
  const hash = crypto.createHash('sha256');
  const kept = [];
  for (let i = 0; i < n; i++) {
    const buffer = Buffer.allocUnsafeSlow(1 + (seed * 7919 + i * 31) % 60000).fill(i & 255);
    if (i % 20 == 0) kept.push(buffer);
    if (i % 5 == 0) hash.update(zlib.inflateSync(zlib.deflateSync(buffer)));
  }
  const map = new Map();
  for (let i = 0; i < Math.min(n, 5000) * 20; i++) map.set('k' + i, { i, list: [i, i + 1] });
  hash.update(String(map.size) + kept.length);
  return hash.digest('hex');
}
if (isMainThread) {
  const n = Number(process.argv[2]);
  const answers = [];
  let left = 6;
  for (let i = 0; i < 6; i++) {
    const worker = new Worker(__filename, { workerData: { seed: i, n } });
    worker.on('message', (text) => { answers[i] = text; });
    worker.on('error', (error) => { answers[i] = String(error); });
    worker.on('exit', (code) => { answers[i] += ' ' + code; if (--left == 0) finish(); });
  }
  function finish() {
    const one = child.spawnSync('sh', ['-c', 'echo child; exit 5']);
    const two = child.spawnSync(process.execPath, ['-e', 'console.log(Buffer.alloc(1e6, "x").length)']);
    console.log(answers.join('\n'), String(one.stdout), one.status, String(two.stdout), two.status);
    process.exitCode = 9;
  }
} else {
  parentPort.postMessage(work(workerData.seed, workerData.n));
}
'''


class Program(RealProgram):
    name, workload = "node", "6 worker threads, Buffers, zlib, children"
    processes = ("node", "MainThread")

    def find(self, unpacked):
        self.node = shutil.which("node")
        if not self.node:
            raise Skipped("no node on the PATH")

    def version(self):
        return subprocess.run([self.node, "--version"], capture_output=True, text=True).stdout.strip()

    def round(self, launch):
        (launch.folder / "script.js").write_text(SCRIPT)
        done = launch.run([self.node, "script.js", "24000"])
        return {"exit status": done.status, "output": done.out, "errors": done.errors}
