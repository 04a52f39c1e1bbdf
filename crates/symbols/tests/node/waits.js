// Waits again and again, five milliseconds at a time, by ways that a walk of its stack meets: plain calls, callbacks of
// built-in functions, a getter, a generator, a constructor, a closure without a name. Begins the next way, and prints its
// name, when a line comes.
'use strict';

const cell = new Int32Array(new SharedArrayBuffer(4));

let milliseconds = 0;

function pause() {
  Atomics.wait(cell, 0, 0, milliseconds);
}

function inCallback(item) {
  pause();
  return item;
}

function byMap() {
  return [1].map(inCallback);
}

class Store {
  constructor() {
    pause();
  }

  get size() {
    pause();
    return 1;
  }

  async save(depth) {
    return depth > 0 ? this.save(depth - 1) : pause();
  }
}

function* generate() {
  pause();
  yield 1;
}

const exported = {};
exported.handle = function () {
  return pause();
};

const ways = {
  byMap,
  byConstructor() {
    return new Store();
  },
  byGetter(store) {
    return store.size + 1;
  },
  byMethod(store) {
    return store.save(3);
  },
  byGenerator() {
    return [...generate()];
  },
  byInferred() {
    return exported.handle();
  },
  bySort() {
    return [2, 1].sort((left, right) => {
      pause();
      return left - right;
    });
  },
  byReplace() {
    return 'a'.replace(/a/, () => pause());
  },
};

const store = Object.create(Store.prototype);
let way = () => {};

function again() {
  for (let round = 0; round < 10; round++) {
    way(store);
  }
  setImmediate(again);
}

// Without waits, for as long as its code takes to be compiled.
function warm(name) {
  milliseconds = 0;
  for (let round = 0; round < 20000; round++) {
    ways[name](store);
  }
  milliseconds = 5;
  way = ways[name];
}

const names = Object.keys(ways);
process.stdin.on('data', () => {
  const name = names.shift();
  if (name === undefined) {
    process.exit(0);
  }
  warm(name);
  console.log(name);
});
again();
