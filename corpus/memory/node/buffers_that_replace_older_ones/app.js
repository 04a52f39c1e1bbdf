// Healthy: a proxy keeps the last 500 bodies as Buffers, whose bytes lie outside V8's heap; a new one replaces an old.
'use strict';

const recentBodies = [];
let number = 0;

function storeBody() {
  recentBodies[number % 500] = Buffer.alloc(10000, number);
  number++;
}

for (let i = 0; i < 500; i++) storeBody();
console.log('ready');
const requests = setInterval(() => {
  for (let i = 0; i < 20; i++) storeBody();
}, 50);
setTimeout(() => clearInterval(requests), 120000);
