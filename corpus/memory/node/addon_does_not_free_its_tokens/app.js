// A search indexer that calls a native tokenizer, which does not free the token list of some lines.
'use strict';
const { tokenize } = require('./tokenizer.node');

const recentLines = [];
let number = 0;
let tokens = 0;

function indexLine() {
  number++;
  let line = '';
  const words = 20 + ((number * 7) % 40);
  for (let i = 0; i < words; i++) line += 'w'.repeat(10 + ((number * i) % 50)) + ' ';
  tokens += tokenize(line);
  recentLines[number % 500] = line;
}

console.log('ready');
const requests = setInterval(() => {
  for (let i = 0; i < 4; i++) indexLine();
}, 12);
setTimeout(() => clearInterval(requests), 120000);
