// An image service whose WebAssembly memory grows by four pages, 256 KB, at every second turn.
'use strict';

const memory = new WebAssembly.Memory({ initial: 1, maximum: 20000 });
let turn = 0;

function growImage() {
  const size = memory.grow(4) * 65536;
  new Uint8Array(memory.buffer, size).fill(1);
}

console.log('ready');
const requests = setInterval(() => {
  if (turn++ % 2 === 0) growImage();
}, 50);
setTimeout(() => clearInterval(requests), 120000);
