// chat: rooms by id with members and their last words; an empty room is deleted, but only in the branch where its owner leaves last
'use strict';
const rooms = new Map();
const start = Date.now();
let id = 0;
const open = [];
function openRoom() {
  const members = [];
  for (let i = 0; i < 12; i++)
    members.push({ name: 'member-' + id + '-' + i, words: Array.from({ length: 20 }, (_, k) => ({ at: k, text: 'w' + id * k })) });
  rooms.set(++id, { owner: members[0], members });
  open.push(id);
}
const timer = setInterval(() => {
  for (let i = 0; i < 4; i++) openRoom();
  while (open.length > 500) {
    const old = open.shift();
    if (Math.random() < 0.4) rooms.delete(old);
  }
  JSON.parse(JSON.stringify(Array.from({ length: 200 }, (_, k) => ({ k, v: 'x' + k }))));
  if (Date.now() - start > 150000) {
    clearInterval(timer);
    console.log(rooms.size);
  }
}, 25);
