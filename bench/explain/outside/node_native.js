// search indexer: node calling a native tokenizer that loses the token list of some lines
const { tokenize } = require(require('path').resolve('bin', 'tok.node')); const t0 = Date.now(); let n = 0, s = 0; const recent = [];
const iv = setInterval(() => { for (let k = 0; k < 4; k++) { n++; let line = ''; const m = 20 + n * 7 % 40; for (let i = 0; i < m; i++) line += 'w'.repeat(10 + (n * i) % 50) + ' '; s += tokenize(line); recent[n % 500] = line; } if (Date.now() - t0 > 150000) { clearInterval(iv); console.log(s); } }, 12);
