// Node: a server over a local socket; each request appends a line and syncs it by the thread pool. "fixed" appends only.
const fs = require("fs"), net = require("net"), { spawn } = require("child_process");

const [path, seconds] = [process.argv[2], Number(process.argv[3])];
const fixed = process.argv.includes("fixed");

function clients() {
  for (let me = 0; me < 8; me++) {
    const to = net.connect(path);
    to.on("connect", () => to.write("a"));
    to.on("data", () => setTimeout(() => to.write("a"), 9 + me));
    to.on("error", () => process.exit(0));
    to.on("close", () => process.exit(0));
  }
}

function served() {
  const truth = fs.openSync(path, "w"), file = fs.openSync(path + ".data", "w");
  const line = Buffer.alloc(64 << 10, 1);
  const told = (start) => {
    const end = process.hrtime.bigint();
    if (end - start > 3000000n) fs.writeSync(truth, `stall 0 ${start} ${end}\n`);
  };
  const server = net.createServer((conn) => {
    conn.on("error", () => {});
    conn.on("data", () => {
      const start = process.hrtime.bigint();
      const done = () => (told(start), conn.write("a"));
      fs.write(file, line, 0, line.length, 0, () => (fixed ? done() : fs.fsync(file, done)));
    });
  });
  server.listen(path + ".door", () => {
    const other = spawn(process.execPath, [__filename, path + ".door", "0", "clients"]);
    setTimeout(() => (other.kill(), process.exit(0)), seconds * 1000);
  });
}

process.argv[4] === "clients" ? clients() : served();
