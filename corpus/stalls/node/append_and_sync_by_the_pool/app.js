// One event loop; a request appends 64 KiB to a file by libuv's pool. --fault fsync: and waits for fs.fsync. Healthy:
// it only appends.
'use strict';
const fs = require('fs'), path = require('path');
const { readSettings, serve } = require('../../common/service.js');

const settings = readSettings(600, 8), line = Buffer.alloc(64 << 10, 1);
const file = fs.openSync(path.join(settings.dir, 'events'), 'w');

function appendEvent(answer) {
  fs.write(file, line, 0, line.length, 0, () => (settings.fault === 'fsync' ? fs.fsync(file, answer) : answer()));
}

serve(settings, (request, answer) => appendEvent(answer));
