// A translation service. Its cache is a Map without a bound, keyed by the whole text, and texts hardly ever repeat.
'use strict';

let seed = 1;
function random(bound) {
  seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0;
  return Math.floor((seed / 2 ** 32) * bound);
}

class Translation {
  constructor(text, words) {
    this.text = text;
    this.words = words;
    this.alternatives = words.map((word) => ({ word, score: random(1000) / 1000 }));
    this.created = Date.now();
  }
}

class TranslationCache {
  constructor() {
    this.byText = new Map();
  }

  translationOf(text, dictionary) {
    let translation = this.byText.get(text);
    if (!translation) {
      translation = translate(text, dictionary);
      this.byText.set(text, translation);
    }
    return translation;
  }
}

function translate(text, dictionary) {
  return new Translation(text, text.split(' ').map((word) => dictionary.get(word) || word));
}

function readText() {
  const words = [];
  for (let i = 0; i < 12; i++) words.push('word' + random(100000));
  return words.join(' ');
}

function handleTranslate(cache, dictionary) {
  return cache.translationOf(readText(), dictionary).words.length;
}

const dictionary = new Map();
for (let i = 0; i < 100000; i++) dictionary.set('word' + i, 'translation of the word ' + i);
const cache = new TranslationCache();
console.log('ready');
const requests = setInterval(() => {
  for (let i = 0; i < 5; i++) handleTranslate(cache, dictionary);
}, 10);
setTimeout(() => clearInterval(requests), 120000);
