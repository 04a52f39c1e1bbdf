// chat server: every connection adds a listener to the shared bus; half of them are removed on close
const { EventEmitter } = require('events'); const bus = new EventEmitter(); bus.setMaxListeners(0); const t0 = Date.now(); const open = []; let n = 0, got = 0;
function connect(id) { const words = []; for (let i = 0; i < 260; i++) words.push({ id, w: 'word' + (id * 31 + i * 7) % 100003 }); const on = m => { got += words.length + m; }; bus.on('msg', on); return { id, on }; }
const iv = setInterval(() => { for (let k = 0; k < 2; k++) { open.push(connect(++n)); if (open.length > 400) { const c = open.shift(); if (c.id % 2) bus.removeListener('msg', c.on); } } if (n % 200 === 0) bus.emit('msg', 1); if (Date.now() - t0 > 150000) { clearInterval(iv); console.log(got); } }, 25);
