// One event loop; every request waits for a small crypto.randomFill of libuv's pool, which has one thread here. Every
// 2.65 s a request does more. --fault regex: it matches an expression that backtracks 120 ms over a run of blanks.
// --fault pool: it hashes by crypto.pbkdf2 for 180 ms in the pool's only thread, and the small jobs queue behind it.
// --fault child: it calls child_process.execFileSync of a tool that takes 160 ms. Healthy: an expression without
// backtracking, pbkdf2 in small slices, execFile.
'use strict';
process.env.UV_THREADPOOL_SIZE = '1';
const childProcess = require('child_process'), crypto = require('crypto');
const { readSettings, serve, digestOf } = require('../../common/service.js');

const settings = readSettings(120, 10), { fault } = settings;
const counts = new Array(1000).fill(0);
const trailingSpace = /\s+$/, lastSpace = /\s$/;

function msOnce(work) {
  const start = process.hrtime.bigint();
  work();
  return Number(process.hrtime.bigint() - start) / 1e6;
}

const msOf = (work) => Math.min(msOnce(work), msOnce(work), msOnce(work));
let blanks = ' '.repeat(2000);
while (fault === 'regex' && msOf(() => trailingSpace.test(blanks + '!')) < 110) {
  blanks = ' '.repeat(blanks.length * 1.1);
}
const msOfRound = msOf(() => crypto.pbkdf2Sync('word', 'salt', 40000, 32, 'sha256')) / 40000;

function stripComment(line) { return trailingSpace.test(line); }

function endsInSpace(line) { return lastSpace.test(line); }

function hashPassword() {
  crypto.pbkdf2('word', 'salt', Math.round(180 / msOfRound), 32, 'sha256', (error, key) => { counts[1] = key[0]; });
}

function hashInSlices(left) {
  const next = () => setTimeout(hashInSlices, 3, left - 1);
  if (left > 0) crypto.pbkdf2('word', 'salt', Math.round(1.5 / msOfRound), 32, 'sha256', next);
}

function renderThumbnail() { counts[2] = childProcess.execFileSync('/bin/sleep', ['0.16']).length; }

function renderLater() { childProcess.execFile('/bin/sleep', ['0.16'], () => { counts[2]++; }); }

let due = Date.now() + 3000, turn = 0;

function runMaintenance() {
  if (Date.now() < due) return;
  due = Date.now() + 2650;
  if (fault === 'regex') counts[3] += stripComment(blanks + '!') ? 1 : 0;
  else if (fault === 'pool') hashPassword();
  else if (fault === 'child') renderThumbnail();
  else {
    endsInSpace(blanks + '!');
    if (++turn % 2) hashInSlices(120);
    else renderLater();
  }
}

serve(settings, (request, answer) => {
  counts[digestOf(request)]++;
  runMaintenance();
  crypto.randomFill(Buffer.alloc(16), answer);
});
