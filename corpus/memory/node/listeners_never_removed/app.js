// A price feed. Each connection listens to the ticker; a connection that closes never takes its listener off.
'use strict';

const { EventEmitter } = require('events');

let seed = 2;
function random(bound) {
  seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0;
  return Math.floor((seed / 2 ** 32) * bound);
}

class Connection {
  constructor(number) {
    this.number = number;
    this.open = true;
    this.headers = { agent: `agent ${random(1e6)}`, address: `10.0.${random(256)}.${random(256)}` };
    this.watchlist = Array.from({ length: 60 }, () => ({ symbol: 'S' + random(20000), limit: random(1e6) }));
    this.last = 0;
  }

  close() {
    this.open = false;
  }
}

class Ticker extends EventEmitter {
  constructor() {
    super();
    this.setMaxListeners(0);
  }
}

function subscribeToPrices(ticker, connection) {
  ticker.on('price', (price) => {
    if (connection.open) connection.last = price;
  });
}

function handleConnection(ticker, number) {
  const connection = new Connection(number);
  subscribeToPrices(ticker, connection);
  connection.close();
  return connection.watchlist.length;
}

const prices = [];
for (let i = 0; i < 150000; i++) prices.push({ symbol: 'S' + i, price: random(1e6), name: 'share number ' + i });
const ticker = new Ticker();
let number = 0;
console.log('ready');
const connections = setInterval(() => {
  for (let i = 0; i < 3; i++) handleConnection(ticker, number++);
}, 10);
const ticks = setInterval(() => ticker.emit('price', prices[random(prices.length)].price), 500);
setTimeout(() => {
  clearInterval(connections);
  clearInterval(ticks);
}, 120000);
