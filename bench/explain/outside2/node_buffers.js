// upload proxy: chunks as 64 KB Buffers; those of aborted uploads stay in the map of pending uploads
const pending = new Map(), recent = []; const t0 = Date.now(); let n = 0, sum = 0;
const iv = setInterval(() => { const b = Buffer.alloc(65536, n & 255); n++; if (n % 4 === 0) pending.set(n, b); else { recent[n % 100] = b; } sum += b[17]; if (n % 200 === 0 && process.env.TRUTH) console.log('TRUTH pending KB', pending.size * 64, 'external KB', process.memoryUsage().external >> 10); if (Date.now() - t0 > 150000) { clearInterval(iv); console.log(sum, pending.size); } }, 25);
