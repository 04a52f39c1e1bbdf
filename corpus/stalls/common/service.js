// What the Node services share: arguments, a server on one event loop, and the starting of the client. See load.c.
// A request and its answer are the same 16 bytes, an id first.
'use strict';
const childProcess = require('child_process'), net = require('net'), path = require('path');

// The command line. The arguments are the service's usual load.
function readSettings(rate, connections) {
  const settings = { port: 21000, fault: 'none', dir: '.', truth: '', rate, connections, burst: 0, secs: 120 };
  for (let i = 2; i + 1 < process.argv.length; i += 2) settings[process.argv[i].slice(2)] = process.argv[i + 1];
  setTimeout(() => process.exit(0), settings.secs * 1000);
  return settings;
}

// Starts the program `load`, which lies beside the service's script.
function startLoad({ port, connections, rate, burst, secs, truth }) {
  const words = ['keep', port, connections, rate, burst, secs, truth].map(String);
  const program = path.join(path.dirname(process.argv[1]), 'load');
  childProcess.spawn(program, words, { stdio: ['ignore', 'inherit', 'inherit'] });
}

// Starts a peer on the next port: it answers a request after the milliseconds in its second eight bytes.
function startPeer(settings) {
  const program = path.join(path.dirname(process.argv[1]), 'load');
  childProcess.spawn(program, ['peer', String(+settings.port + 1)], { stdio: ['ignore', 'inherit', 'inherit'] });
}

function dialPeer(settings) {
  const socket = net.connect({ port: +settings.port + 1, host: '127.0.0.1' });
  socket.setNoDelay(true);
  return socket;
}

// What a peer is asked, which answers after so long.
function question(ms) {
  const bytes = Buffer.alloc(16);
  bytes.writeBigUInt64LE(1n, 0);
  bytes.writeBigUInt64LE(BigInt(ms), 8);
  return bytes;
}

// Calls handle(request, answer) for each request; answer() sends it back.
function serve(settings, handle) {
  const server = net.createServer((socket) => {
    socket.setNoDelay(true);
    let rest = Buffer.alloc(0);
    socket.on('data', (data) => {
      rest = rest.length ? Buffer.concat([rest, data]) : data;
      while (rest.length >= 16) {
        const request = rest.subarray(0, 16);
        rest = rest.subarray(16);
        handle(request, () => { if (!socket.destroyed) socket.write(request); });
      }
    });
    socket.on('error', () => socket.destroy());
  });
  server.listen({ port: +settings.port, host: '127.0.0.1', backlog: 256 }, () => startLoad(settings));
}

// A little work of each request: a number below 1000.
function digestOf(request) {
  let digest = Number(request.readBigUInt64LE(0) & 0xffffffn);
  for (let i = 0; i < 3000; i++) digest = (Math.imul(digest, 31) + i) >>> 0;
  return digest % 1000;
}

module.exports = { readSettings, serve, digestOf, startPeer, dialPeer, question };
