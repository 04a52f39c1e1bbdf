// Node: objects that stay, buffers that stay, buffers that are replaced; the first argument says which.
const kept = [];
let turn = 0;
const which = process.argv[2];
const traffic = () => { let all = []; for (let i = 0; i < 2000; i++) all.push({ i, text: 'x'.repeat(i % 50) }); return all.length; };
setInterval(() => {
  traffic();
  turn++;
  if (which === 'objects') for (let i = 0; i < 400; i++) kept.push({ turn, i, tags: ['a' + i, 'b' + turn] });
  if (which === 'buffers') kept.push(Buffer.alloc(20000, 1));
  if (which === 'replaced') kept[turn % 200] = Buffer.alloc(30000, 1);
}, 20);
