// A log shipper. Batches that could not be sent are kept in an array for a later try that never comes.
'use strict';

let seed = 4;
function random(bound) {
  seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0;
  return Math.floor((seed / 2 ** 32) * bound);
}

class LogShipper {
  constructor() {
    this.failedBatches = [];
    this.shipped = 0;
  }

  encodeBatch(lines) {
    const text = lines.join('\n');
    const batch = Buffer.alloc(16384);
    batch.write(text);
    return batch;
  }

  shipBatch(batch) {
    if (random(4) === 0) {
      this.failedBatches.push(batch);
    } else {
      this.shipped += batch.length;
    }
  }
}

function handleLogLines(shipper, hosts) {
  const lines = [];
  for (let i = 0; i < 40; i++) {
    lines.push(`${hosts[random(hosts.length)].name} request ${random(1e9)} took ${random(5000)} ms`);
  }
  shipper.shipBatch(shipper.encodeBatch(lines));
}

const hosts = [];
for (let i = 0; i < 120000; i++) hosts.push({ name: 'host-' + i + '.example.org', rack: 'rack ' + (i % 500) });
const shipper = new LogShipper();
console.log('ready');
const requests = setInterval(() => {
  for (let i = 0; i < 3; i++) handleLogLines(shipper, hosts);
}, 10);
setTimeout(() => clearInterval(requests), 120000);
