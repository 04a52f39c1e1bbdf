// One event loop; each request needs a price. --fault one: prices come over one connection, in turn, and the upstream
// takes 230 ms for one of them every 2.7 s. --fault rates: a timer fetches rates over a connection of its own every
// 2.7 s, which takes 210 ms, and requests await them. Healthy: the upstream answers at once, and requests use the old
// rates while new ones come.
'use strict';
const { readSettings, serve, digestOf, startPeer, dialPeer, question } = require('../../common/service.js');

// One reply for each question, in their order.
function upstreamOf(settings) {
  const socket = dialPeer(settings), waiting = [];
  let received = 0;
  socket.on('data', (data) => {
    for (received += data.length; received >= 16; received -= 16) waiting.shift()();
  });
  return (ms) => new Promise((resolve) => {
    waiting.push(resolve);
    socket.write(question(ms));
  });
}

function fetchRates(settings, ms) {
  return new Promise((resolve) => {
    const socket = dialPeer(settings);
    socket.once('data', () => { socket.destroy(); resolve(); });
    socket.write(question(ms));
  });
}

function main() {
  const settings = readSettings(150, 10), { fault } = settings;
  const prices = new Array(1000).fill(0);
  startPeer(settings);
  setTimeout(() => {
    const askPrice = upstreamOf(settings);
    let due = Date.now() + 3000, rates = Promise.resolve();

    async function quotePrice(digest) {
      const isDue = fault === 'one' && Date.now() > due;
      if (isDue) due = Date.now() + 2700;
      await askPrice(isDue ? 230 : 0);
      await rates;
      prices[digest] += 1;
    }

    setInterval(() => {
      const fetched = fetchRates(settings, fault === 'rates' ? 210 : 0);
      if (fault === 'rates') rates = fetched;
    }, 2700);
    serve(settings, (request, answer) => { quotePrice(digestOf(request)).then(answer); });
  }, 300);
}

main();
