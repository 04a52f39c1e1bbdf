// Node; names say nothing of what is done. First argument: which.
const kept = [];
const turns = {
  // zinc: entries of a Map that nobody deletes.
  zinc(n) { (turns.map ||= new Map()).set('zinc ' + n, { n, text: 'z'.repeat(200) + n, near: [n, n + 1] }); },
  // nickel: the memory of a WebAssembly module grows by four pages.
  nickel(n) {
    turns.memory ||= new WebAssembly.Memory({ initial: 1, maximum: 20000 });
    if (n % 40 === 0) { const was = turns.memory.grow(4) * 65536; new Uint8Array(turns.memory.buffer, was).fill(1); }
  },
  // cobalt: the last 500 bodies are kept.
  cobalt(n) { kept[n % 500] = Buffer.alloc(10000, n); },
  // chrome: ArrayBuffers of some size, kept.
  chrome(n) { if (n % 10 === 0) kept.push(new Uint8Array(new ArrayBuffer(60000)).fill(1)); },
};
let n = 0;
setInterval(() => { for (let i = 0; i < 20; i++) turns[process.argv[2]](n++); }, 50);
