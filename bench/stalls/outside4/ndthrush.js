// one event loop; every request also waits for a small crypto.randomFill() of libuv's pool (one thread here). Faults: comb
// (every 2.6 s a request's handler matches a regular expression that backtracks ~120 ms over a run of blanks), nest (every 2.7 s a login hashes
// by crypto.pbkdf2 ~180 ms in the pool's only thread: the requests' small jobs queue behind it), load (every 2.8 s a handler
// calls child_process.execFileSync of a tool that takes ~160 ms).
// Mended: a linear expression; pbkdf2 in small slices; execFile.
'use strict';
process.env.UV_THREADPOOL_SIZE = '1';
const net = require('net'), path = require('path'), cp = require('child_process'), crypto = require('crypto');
const O = { port: '21000', fault: 'none', dir: '.', truth: '', rate: '120', conns: '10', secs: '120' };
for (let i = 2; i + 1 < process.argv.length; i += 2) O[process.argv[i].slice(2)] = process.argv[i + 1];
const twist = /\s+$/, plain = /\s$/;
const once = (f) => { const t = process.hrtime.bigint(); f(); return Number(process.hrtime.bigint() - t) / 1e6; };
const ms = (f) => Math.min(once(f), once(f), once(f));
let word = ' '.repeat(2000);
if (O.fault === 'comb') while (ms(() => twist.test(word + '!')) < 110) word = ' '.repeat(word.length * 1.1);
const per = ms(() => crypto.pbkdf2Sync('song', 'salt', 40000, 32, 'sha256')) / 40000;
const rounds = Math.round(180 / per);
const ring = new Array(1000).fill(0);
function comb(line) { return twist.test(line); }
function combPlain(line) { return plain.test(line); }
function nest() { crypto.pbkdf2('song', 'salt', rounds, 32, 'sha256', (e, k) => { ring[1] = k[0]; }); }
function nestBits(left) {
  if (left > 0) crypto.pbkdf2('song', 'salt', Math.round(1.5 / per), 32, 'sha256', () => setTimeout(nestBits, 3, left - 1));
}
function fetchBerry() { ring[2] = cp.execFileSync('/bin/sleep', ['0.16']).length; }
function fetchLater() { cp.execFile('/bin/sleep', ['0.16'], () => { ring[2]++; }); }
let due = Date.now() + 3000, turn = 0;
function peck(b) {
  let h = Number(b.readBigUInt64LE(0) & 0xffffffn);
  for (let i = 0; i < 3000; i++) h = (Math.imul(h, 31) + i) >>> 0;
  ring[h % 1000]++;
  if (Date.now() < due) return;
  due = Date.now() + 2650;
  if (O.fault === 'comb') ring[3] += comb(word + '!') ? 1 : 0;
  else if (O.fault === 'nest') nest();
  else if (O.fault === 'load') fetchBerry();
  else { turn++; combPlain(word + '!'); if (turn % 2) nestBits(120); else fetchLater(); }
}
net.createServer((s) => {
  s.setNoDelay(true);
  let rest = Buffer.alloc(0);
  s.on('data', (d) => {
    rest = rest.length ? Buffer.concat([rest, d]) : d;
    while (rest.length >= 16) {
      const b = rest.subarray(0, 16);
      rest = rest.subarray(16);
      peck(b);
      crypto.randomFill(Buffer.alloc(16), () => { if (!s.destroyed) s.write(b); });
    }
  });
  s.on('error', () => s.destroy());
}).listen({ port: +O.port, host: '127.0.0.1', backlog: 256 }, () => {
  cp.spawn(path.join(__dirname, 'exload'), ['load', 'keep', O.port, O.conns, O.rate, '0', O.secs, O.truth],
    { stdio: ['ignore', 'inherit', 'inherit'] });
});
setTimeout(() => process.exit(0), +O.secs * 1000);
