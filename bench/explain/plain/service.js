// Node as services use it. First argument: which; second: the native module.
const which = process.argv[2];
const seen = new Map(), listeners = [];
const addon = which === 'digest' ? require(process.argv[3]) : null;
const turns = {
  digest(n) { addon.digest('text '.repeat(200) + n); },
  seen(n) { seen.set('user-' + n, { n, roles: ['a', 'b'], at: new Date() }); },
  closures(n) { const big = new Array(200).fill(n); listeners.push(() => big.length); },
  json(n) { JSON.parse(JSON.stringify({ n, text: 'x'.repeat(2000) })); },
};
let n = 0;
setInterval(() => { for (let i = 0; i < 20; i++) { turns[which](n++); turns.json(n); } }, 30);
