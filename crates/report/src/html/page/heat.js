// Every request of every arm: one map per arm, time to the right, latency upwards, dark where many were.

const CLASSES_PER_DECADE = 10;
const RARE = 5; // the palest colour is one request in ten to this power
const HEAT_LEFT = 52,
  HEAT_FOOT = 20;

const classMs = (at) => 10 ** (at / CLASSES_PER_DECADE - 6);

// Milliseconds in the unit that people say.
function span(ms) {
  if (ms >= 1000) return tick(Number((ms / 1000).toPrecision(3))) + " s";
  if (ms >= 1) return tick(Number(ms.toPrecision(3))) + " ms";
  return tick(Number((ms * 1000).toPrecision(3))) + " µs";
}

// The classes that occur anywhere, in whole decades: all maps share them.
function heatRange() {
  let low = Infinity,
    high = -Infinity;
  for (const line of DATA.latency)
    for (const column of line.columns)
      for (let at = 0; at < column.length; at += 2) {
        low = Math.min(low, column[at]);
        high = Math.max(high, column[at]);
      }
  return {
    low: Math.floor(low / 2) * 2,
    high: Math.ceil((high + 1) / 2) * 2,
  };
}

// From the palest to the darkest of the theme's colours.
function heatColour(share) {
  const level = Math.min(1, Math.max(0, 1 + Math.log10(share) / RARE));
  const at = level * (palette.heat.length - 1);
  const lower = palette.heat[Math.floor(at)],
    upper = palette.heat[Math.ceil(at)];
  return "rgb(" + lower.map((c, i) => Math.round(c + (upper[i] - c) * (at % 1))).join(",") + ")";
}

function drawHeat(canvas, line, range) {
  const ratio = devicePixelRatio,
    width = canvas.clientWidth,
    height = canvas.clientHeight;
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  const context = canvas.getContext("2d");
  context.scale(ratio, ratio);
  const plot = { left: HEAT_LEFT, width: width - HEAT_LEFT - 1, height: height - HEAT_FOOT };
  // Whole pixels of the screen, so that no seam shows between neighbours.
  const whole = (place) => Math.round(place * ratio) / ratio;
  const x = (t) => whole(plot.left + (plot.width * t) / DATA.took_s);
  const y = (at) => whole(plot.height * (1 - (at - range.low) / (range.high - range.low)));
  context.fillStyle = palette.panel;
  context.fillRect(plot.left, 0, plot.width, plot.height);
  line.columns.forEach((column, index) => {
    const from = x((index * line.step_ms) / 1000),
      to = x(((index + 1) * line.step_ms) / 1000);
    let all = 0;
    for (let at = 1; at < column.length; at += 2) all += column[at];
    for (let at = 0; at < column.length; at += 2) {
      const top = y(column[at] + 1);
      context.fillStyle = heatColour(column[at + 1] / all);
      context.fillRect(from, top, to - from, y(column[at]) - top);
    }
  });
  heatAxes(context, plot, range, x, y);
}

function heatAxes(context, plot, range, x, y) {
  context.font = "11.5px system-ui, sans-serif";
  context.strokeStyle = palette.grid;
  context.fillStyle = palette.muted;
  context.textBaseline = "middle";
  context.textAlign = "right";
  for (let at = range.low; at <= range.high; at++) {
    if (at % CLASSES_PER_DECADE !== 0) continue;
    const place = Math.round(y(at)) + 0.5;
    context.beginPath();
    context.moveTo(plot.left - 4, place);
    context.lineTo(plot.left, place);
    context.stroke();
    context.fillText(
      span(classMs(at)),
      plot.left - 7,
      Math.min(Math.max(place, 6), plot.height - 6),
    );
  }
  context.textBaseline = "alphabetic";
  const step = TIME_STEPS.find((step) => (step / DATA.took_s) * plot.width >= 70) || TIME_STEPS.at(-1);
  for (let t = 0; t <= DATA.took_s; t += step) {
    const place = x(t),
      label = timeTicks([t, step], step)[0];
    const space = context.measureText(label).width / 2;
    context.textAlign = place + space > plot.left + plot.width ? "right" : t === 0 ? "left" : "center";
    context.fillText(label, place, plot.height + 15);
  }
}

// What is under the pointer, in words.
function tellHeat(canvas, line, range, event, readout) {
  const box = canvas.getBoundingClientRect();
  const t = ((event.clientX - box.left - HEAT_LEFT) / (box.width - HEAT_LEFT - 1)) * DATA.took_s;
  const rise = 1 - (event.clientY - box.top) / (box.height - HEAT_FOOT);
  const at = Math.floor(range.low + rise * (range.high - range.low));
  const index = Math.floor((t * 1000) / line.step_ms);
  const column = line.columns[index];
  if (!column || rise < 0) return readout.replaceChildren(HEAT_HINT);
  let all = 0,
    found = 0,
    above = 0;
  for (let i = 0; i < column.length; i += 2) {
    all += column[i + 1];
    if (column[i] === at) found = column[i + 1];
    if (column[i] >= at) above += column[i + 1];
  }
  const from = (index * line.step_ms) / 1000;
  readout.replaceChildren(
    element("b", {}, ARMS[line.arm].name),
    element("span", {}, clock(from) + " to " + clock(from + line.step_ms / 1000)),
    element("span", {}, span(classMs(at)) + " to " + span(classMs(at + 1)) + ": "),
    element("b", {}, count(found) + " of " + count(all) + " requests"),
    element("span", {}, count(above) + " as slow or slower"),
  );
}

const HEAT_HINT = "Point at a map for its numbers.";

function buildHeat() {
  const host = document.getElementById("chart-heat");
  const range = heatRange();
  const maps = [];
  const grid = element("div", { class: "maps" });
  const readout = element("div", { class: "readout", "aria-live": "polite" }, HEAT_HINT);
  for (const line of DATA.latency) {
    const arm = ARMS[line.arm];
    const canvas = element("canvas", {
      role: "img",
      "aria-label": "Requests of " + arm.name + " by time and latency",
    });
    const map = element(
      "div",
      { class: "map" },
      element("h4", {}, swatch(arm), element("span", {}, arm.name)),
      canvas,
      element("p", {}, line.pauses || ""),
    );
    canvas.addEventListener("pointermove", (event) =>
      tellHeat(canvas, line, range, event, readout),
    );
    canvas.addEventListener("pointerleave", () => readout.replaceChildren(HEAT_HINT));
    grid.append(map);
    maps.push({ arm, map, draw: () => drawHeat(canvas, line, range) });
  }
  host.append(heatKey(), readout, grid);
  const draw = () => maps.filter(({ map }) => !map.hidden).forEach((one) => one.draw());
  const show = () => {
    for (const { arm, map } of maps) map.hidden = hiddenArms.has(arm.index);
    draw();
  };
  onWidth(host, draw);
  armListeners.push(show);
  themeListeners.push(draw);
}

function heatKey() {
  return element(
    "div",
    { class: "key" },
    element("span", {}, "1 in 100,000 of a moment's requests"),
    element("i", {}),
    element("span", {}, "all"),
  );
}
