// One event loop. --fault compute: every 2.65 s a request computes 120 ms. --fault fsync: every 2.65 s a request
// appends and calls fs.fsyncSync for 130 ms. --fault collect: a timer forces a full collection of a large heap every
// 2.5 s. Healthy: a worker thread computes, fs.fsync syncs in the pool, and no collection is forced.
'use strict';
const fs = require('fs'), path = require('path'), vm = require('vm');
const { Worker, isMainThread, parentPort } = require('worker_threads');
const { readSettings, serve, digestOf } = require('../../common/service.js');

function scoreCandidates(ms) {
  const end = process.hrtime.bigint() + BigInt(ms) * 1000000n;
  let x = 12345;
  while (process.hrtime.bigint() < end) for (let i = 0; i < 200000; i++) x = (Math.imul(x, 1103515245) + 12345) >>> 0;
  return x;
}

function appendJournal(file, page, ms) {
  const end = Date.now() + ms;
  for (let count = 0; Date.now() < end; count++) {
    fs.writeSync(file, page, 0, 4096, (count % 512) * 4096);
    fs.fsyncSync(file);
  }
}

function appendInPool(file, page, end, count) {
  if (Date.now() >= end) return;
  const next = () => appendInPool(file, page, end, count + 1);
  fs.write(file, page, 0, 4096, (count % 512) * 4096, () => fs.fsync(file, next));
}

function fillCache() {
  const cache = [];
  for (let i = 0; i < 1300000; i++) cache.push({ id: i, next: cache[i >> 1], tag: [i, i + 1] });
  return cache;
}

function collector() {
  require('v8').setFlagsFromString('--expose-gc');
  return vm.runInNewContext('gc');
}

function main() {
  const settings = readSettings(150, 10), { fault } = settings;
  const file = fs.openSync(path.join(settings.dir, 'journal'), 'w+'), page = Buffer.alloc(4096, 'f');
  const counts = new Array(1000).fill(0);
  const cache = fault === 'collect' || fault === 'none' ? fillCache() : [];
  const helper = fault === 'none' ? new Worker(__filename) : null;
  if (helper) helper.on('message', (score) => { counts[1] = score; });
  if (fault === 'collect') setInterval(collector(), 2500);
  let due = Date.now() + 3000, turn = 0;

  function runMaintenance() {
    if (Date.now() < due || fault === 'collect') return;
    due = Date.now() + 2650;
    if (fault === 'compute') counts[0] = scoreCandidates(120);
    else if (fault === 'fsync') appendJournal(file, page, 130);
    else if (turn++ % 2) helper.postMessage(120);
    else appendInPool(file, page, Date.now() + 130, 0);
  }

  serve(settings, (request, answer) => {
    const digest = digestOf(request);
    counts[digest] += cache.length ? cache[digest].id & 1 : 1;
    runMaintenance();
    answer();
  });
}

if (isMainThread) main();
else parentPort.on('message', (ms) => parentPort.postMessage(scoreCandidates(ms)));
