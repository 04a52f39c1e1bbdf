// upload gateway: chunks are Buffers of their own (allocUnsafeSlow) that wait in the closure of a promise; aborted uploads never settle it
'use strict';
const start = Date.now();
const waiting = [];
const aborted = new Set();
let sum = 0;
function receive(n) {
  const chunk = Buffer.allocUnsafeSlow(n);
  chunk.fill(7);
  let settle;
  const done = new Promise((resolve) => (settle = resolve)).then(() => (sum += chunk.length));
  waiting.push({ settle, done });
}
const timer = setInterval(() => {
  for (let i = 0; i < 6; i++) receive(3000 + Math.floor(Math.random() * 30000));
  while (waiting.length > 150) {
    const w = waiting.shift();
    if (Math.random() < 0.75) w.settle();
    else aborted.add(w); // the retry that would settle it never comes
  }
  if (Date.now() - start > 150000) {
    clearInterval(timer);
    console.log(sum, aborted.size);
  }
}, 25);
