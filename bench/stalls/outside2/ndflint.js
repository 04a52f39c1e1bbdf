// one event loop. faults: knap (a request every 2.6 s computes ~120 ms), store (a request every 2.7 s appends and
// fs.fsyncSync()s ~130 ms), sweep (a timer runs a full collection over a large heap every 2.5 s).
// Mended: a worker thread computes, fs.fsync() in the pool, no forced collection.
'use strict';
const net = require('net'), fs = require('fs'), path = require('path'), cp = require('child_process');
const { Worker, isMainThread, parentPort } = require('worker_threads');
function knap(ms) {
  const end = process.hrtime.bigint() + BigInt(ms) * 1000000n;
  let x = 12345;
  while (process.hrtime.bigint() < end) for (let i = 0; i < 200000; i++) x = (Math.imul(x, 1103515245) + 12345) >>> 0;
  return x;
}
if (!isMainThread) {
  parentPort.on('message', (m) => parentPort.postMessage(knap(m)));
} else {
  const O = { port: '21000', fault: 'none', dir: '.', truth: '', rate: '150', conns: '10', secs: '120' };
  for (let i = 2; i + 1 < process.argv.length; i += 2) O[process.argv[i].slice(2)] = process.argv[i + 1];
  const fd = fs.openSync(path.join(O.dir, 'flint.dat'), 'w+');
  const page = Buffer.alloc(4096, 'f');
  const ring = new Array(1000).fill(0);
  const cores = [];
  let sweep = null;
  if (O.fault === 'sweep' || O.fault === 'none') {
    for (let i = 0; i < 1300000; i++) cores.push({ id: i, next: cores[i >> 1], tag: [i, i + 1] });
    require('v8').setFlagsFromString('--expose-gc');
    sweep = require('vm').runInNewContext('gc');
  }
  const helper = O.fault === 'none' ? new Worker(__filename) : null;
  if (helper) helper.on('message', (x) => { ring[1] = x; });
  function chip(ms) {
    const end = Date.now() + ms;
    for (let n = 0; Date.now() < end; n++) {
      fs.writeSync(fd, page, 0, 4096, (n % 512) * 4096);
      fs.fsyncSync(fd);
    }
  }
  function chipLater(end, n) {
    if (Date.now() >= end) return;
    fs.write(fd, page, 0, 4096, (n % 512) * 4096, () => fs.fsync(fd, () => chipLater(end, n + 1)));
  }
  let due = Date.now() + 3000, turn = 0;
  function strike(b) {
    let h = Number(b.readBigUInt64LE(0) & 0xffffffn);
    for (let i = 0; i < 3000; i++) h = (Math.imul(h, 31) + i) >>> 0;
    ring[h % 1000] += cores.length ? cores[h % cores.length].id & 1 : 1;
    if (Date.now() < due || O.fault === 'sweep') return;
    due = Date.now() + 2650;
    if (O.fault === 'knap') ring[0] = knap(120);
    else if (O.fault === 'store') chip(130);
    else if (turn++ % 2) helper.postMessage(120);
    else chipLater(Date.now() + 130, 0);
  }
  net.createServer((s) => {
    s.setNoDelay(true);
    let rest = Buffer.alloc(0);
    s.on('data', (d) => {
      rest = rest.length ? Buffer.concat([rest, d]) : d;
      while (rest.length >= 16) {
        const b = rest.subarray(0, 16);
        strike(b);
        s.write(b);
        rest = rest.subarray(16);
      }
    });
    s.on('error', () => s.destroy());
  }).listen({ port: +O.port, host: '127.0.0.1', backlog: 256 }, () => {
    cp.spawn(path.join(__dirname, 'exload'), ['load', 'keep', O.port, O.conns, O.rate, '0', O.secs, O.truth],
      { stdio: ['ignore', 'inherit', 'inherit'] });
  });
  if (O.fault === 'sweep') setInterval(() => sweep(), 2500);
  setTimeout(() => process.exit(0), +O.secs * 1000);
}
