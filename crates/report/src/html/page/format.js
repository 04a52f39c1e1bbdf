// Numbers for people, as src/units/written.rs writes them.

const KIB = 1024;
const BYTE_UNITS = [
  ["TiB", KIB ** 4],
  ["GiB", KIB ** 3],
  ["MiB", KIB ** 2],
  ["KiB", KIB],
  ["B", 1],
];

// The largest unit in which `bytes` is at least 1.
function byteUnit(bytes) {
  const size = Math.abs(bytes);
  const found = BYTE_UNITS.find(([, factor]) => size >= factor) || BYTE_UNITS[4];
  return { word: found[0], factor: found[1] };
}

function digits(value) {
  if (!Number.isFinite(value)) return "–";
  const size = Math.abs(value);
  if (size < 0.0005) return "0";
  if (size < 0.01) return value.toFixed(3);
  if (size < 9.995) return value.toFixed(2);
  if (size < 99.95) return value.toFixed(1);
  return Math.round(value).toLocaleString("en-US");
}

function count(value) {
  const size = Math.abs(value);
  if (size >= 1e9) return digits(value / 1e9) + " G";
  if (size >= 1e6) return digits(value / 1e6) + " M";
  if (size >= 1e4) return digits(value / 1e3) + " k";
  return digits(value);
}

// A tick on an axis: no more digits than it needs.
function tick(value) {
  return Number(value.toPrecision(6)).toLocaleString("en-US", { maximumFractionDigits: 6 });
}

const two = (n) => String(n).padStart(2, "0");

// A time of the run: m:ss, h:mm:ss from one hour on, days from two days on.
function clock(seconds) {
  const s = Math.round(Math.abs(seconds));
  const days = Math.floor(s / 86400),
    hours = Math.floor(s / 3600),
    minutes = Math.floor(s / 60);
  if (hours >= 48) return days + " d " + two(hours % 24) + ":" + two(minutes % 60);
  if (hours >= 1) return hours + ":" + two(minutes % 60) + ":" + two(s % 60);
  return minutes + ":" + two(s % 60);
}

// Steps of a time axis, in seconds, that people count in.
const TIME_STEPS = [
  0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200,
  86400, 172800, 432000, 864000, 2592000,
];

// Ticks of a time axis, all in the unit of its step.
function timeTicks(splits, step) {
  if (step >= 86400) return splits.map((s) => tick(s / 86400) + " d");
  if (step >= 3600) return splits.map((s) => tick(s / 3600) + " h");
  if (step >= 60 && splits[splits.length - 1] >= 7200) {
    return splits.map((s) => Math.floor(s / 3600) + ":" + two(Math.floor(s / 60) % 60) + " h");
  }
  if (step < 1) return splits.map((s) => tick(s) + " s");
  return splits.map((s) => Math.floor(s / 60) + ":" + two(Math.floor(s) % 60));
}
