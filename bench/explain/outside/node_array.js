// websocket broadcaster: closed sockets' message history is kept in an array
const t0 = Date.now(); const history = []; const live = new Map(); let n = 0;
class Conn { constructor(id) { this.id = id; this.queue = []; for (let i = 0; i < 8; i++) this.queue.push({ seq: i, text: 'm'.repeat(20) + id + '-' + i, at: Date.now() }); } }
const iv = setInterval(() => { for (let k = 0; k < 6; k++) { n++; live.set(n, new Conn(n)); if (n > 2000) { const c = live.get(n - 2000); live.delete(n - 2000); history.push(...c.queue); } } if (Date.now() - t0 > 150000) { clearInterval(iv); console.log(history.length); } }, 12);
