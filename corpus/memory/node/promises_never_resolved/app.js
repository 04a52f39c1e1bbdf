// A job gateway. Each request waits for an answer under its own number. The broker drops one job in two, and no
// timeout ever gives such a request up.
'use strict';

let seed = 3;
function random(bound) {
  seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0;
  return Math.floor((seed / 2 ** 32) * bound);
}

class JobRequest {
  constructor(number) {
    this.number = number;
    this.parameters = {};
    for (let i = 0; i < 20; i++) this.parameters['field' + i] = `value ${random(1e9)}`;
  }
}

class Broker {
  constructor() {
    this.pendingJobs = new Map();
  }

  sendJob(job) {
    return new Promise((resolve) => this.pendingJobs.set(job.number, { job, resolve, sent: Date.now() }));
  }

  answer(number) {
    const { resolve } = this.pendingJobs.get(number);
    this.pendingJobs.delete(number);
    resolve('done');
  }
}

async function handleJob(broker, number) {
  const job = new JobRequest(number);
  const body = JSON.stringify(job.parameters);
  const result = await broker.sendJob(job);
  return { result, length: body.length };
}

const users = new Map();
for (let i = 0; i < 100000; i++) users.set(i, { name: 'user ' + i, mail: i + '@example.org' });
const broker = new Broker();
let number = 0;
console.log('ready');
const requests = setInterval(() => {
  for (let i = 0; i < 6; i++) {
    number++;
    handleJob(broker, number);
    if (number % 2) setImmediate((answered) => broker.answer(answered), number);
  }
}, 10);
setTimeout(() => clearInterval(requests), 120000);
