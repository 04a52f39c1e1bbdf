// A chat service. Each visitor gets an interval that would send a sign of life; leaving never clears it.
'use strict';

let seed = 5;
function random(bound) {
  seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0;
  return Math.floor((seed / 2 ** 32) * bound);
}

class Visitor {
  constructor(number) {
    this.number = number;
    this.present = true;
    this.signs = 0;
    this.messages = [];
  }

  receiveMessage(text) {
    this.messages.push({ text, at: Date.now(), read: false });
  }
}

class ChatRoom {
  constructor(phrases) {
    this.phrases = phrases;
    this.visits = 0;
  }

  enterRoom(number) {
    const visitor = new Visitor(number);
    this.visits++;
    this.keepAlive(visitor);
    return visitor;
  }

  keepAlive(visitor) {
    setInterval(() => {
      if (visitor.present) visitor.signs++;
    }, 30000);
  }

  leave(visitor) {
    visitor.present = false;
  }
}

function handleVisit(room, number) {
  const visitor = room.enterRoom(number);
  for (let i = 0; i < 25; i++) visitor.receiveMessage(room.phrases[random(room.phrases.length)] + ' ' + random(1e6));
  room.leave(visitor);
}

const phrases = [];
for (let i = 0; i < 200000; i++) phrases.push('a phrase with the number ' + i);
const room = new ChatRoom(phrases);
let number = 0;
console.log('ready');
setInterval(() => {
  for (let i = 0; i < 3; i++) handleVisit(room, number++);
}, 10);
setTimeout(() => process.exit(0), 120000);
