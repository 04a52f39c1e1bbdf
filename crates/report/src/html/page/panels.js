// What each chart shows.

const scaled = (values, factor) => values.map((value) => (value === null ? null : value * factor));
const highest = (lines) =>
  lines.reduce((most, line) => line.values.reduce((m, v) => (v > m ? v : m), most), 0);

// Lines of a panel in its display unit: bands first, then processes, then means on top.
function panelLines(panel, factor) {
  const lines = [];
  panel.arms.forEach((band, arm) => {
    lines.push(
      { arm, kind: "hi", values: scaled(band.hi, factor) },
      { arm, kind: "lo", values: scaled(band.lo, factor) },
    );
  });
  for (const line of panel.processes) {
    lines.push({
      arm: line.arm,
      kind: "process",
      id: line.id,
      values: scaled(line.values, factor),
    });
  }
  panel.arms.forEach((band, arm) =>
    lines.push({ arm, kind: "mean", values: scaled(band.mean, factor) }),
  );
  return lines;
}

const seconds = (milliseconds) => milliseconds.map((ms) => ms / 1000);
const tall = (width) => (width < NARROW ? 260 : 380);
const low = (width) => (width < NARROW ? 200 : 240);

function rssChart() {
  const panel = DATA.rss;
  const most =
    panel.arms.reduce((m, band) => band.hi.reduce((a, v) => (v > a ? v : a), m), 0) * panel.scale;
  const unit = byteUnit(most);
  const zero = element("input", { type: "checkbox", checked: "" });
  const tools = [element("label", {}, zero, "from zero")];
  const chart = timeChart({
    host: "chart-rss",
    label: "Resident memory of each arm over time",
    height: tall,
    t_s: seconds(panel.t_ms),
    lines: panelLines(panel, panel.scale / unit.factor),
    ticks: (v) => tick(v) + " " + unit.word,
    value: (v) => digits(v) + " " + unit.word,
    axisWidth: 76,
    fromZero: () => zero.checked,
    marks: DATA.marks,
    tools,
    thin: panel.processes.length > 60 ? 0.16 : 0.4,
  });
  zero.addEventListener("change", () =>
    chart.u.setScale("x", { min: chart.u.scales.x.min, max: chart.u.scales.x.max }),
  );
}

function rateChart(host, label, panel, factor, ticks, value, axisWidth = 56) {
  timeChart({
    host,
    label,
    height: low,
    t_s: seconds(panel.t_ms),
    lines: panelLines(panel, panel.scale * factor),
    ticks,
    value,
    axisWidth,
    fromZero: () => true,
  });
}

function heapChart({ id, title, panel }) {
  const most =
    panel.arms.reduce((m, band) => band.hi.reduce((a, v) => (v > a ? v : a), m), 0) * panel.scale;
  const unit = byteUnit(most);
  rateChart(
    "chart-heap-" + id,
    title + " of each arm over time",
    panel,
    1 / unit.factor,
    (v) => tick(v) + " " + unit.word,
    (v) => digits(v) + " " + unit.word,
    76,
  );
}

const QUANTILES = [
  ["p50_us", "p50"],
  ["p99_us", "p99"],
  ["max_us", "longest"],
];

function latencyChart() {
  const t_ms = [...new Set(DATA.latency.flatMap((line) => line.t_ms))].sort((a, b) => a - b);
  const position = new Map(t_ms.map((t, at) => [t, at]));
  const linesOf = (key) =>
    DATA.latency.map((line) => {
      const values = new Array(t_ms.length).fill(null);
      line.t_ms.forEach((t, at) => {
        values[position.get(t)] = Math.max(line[key][at] / 1000, 0.001);
      });
      return { arm: line.arm, kind: "mean", values };
    });
  const choice = element(
    "select",
    {},
    ...QUANTILES.map(([key, word]) => element("option", { value: key }, word)),
  );
  choice.value = "p99_us";
  const chart = timeChart({
    host: "chart-latency",
    label: "Latency of each arm over time",
    height: low,
    t_s: seconds(t_ms),
    lines: linesOf("p99_us"),
    ticks: (v, y) => (isLogTick(v, y) ? tick(v) + " ms" : ""),
    value: (v) => digits(v) + " ms",
    axisWidth: 76,
    log: true,
    fromZero: () => false,
    tools: [element("label", {}, "Quantile", choice)],
  });
  choice.addEventListener("change", () => {
    linesOf(choice.value).forEach((line, at) => {
      chart.spec.lines[at].values = line.values;
    });
    chart.u.setData([chart.spec.t_s, ...chart.spec.lines.map((line) => line.values)], false);
    chart.u.setScale("x", { min: chart.u.scales.x.min, max: chart.u.scales.x.max });
  });
}

// Decades; where fewer than two of them are shown, their halves and fifths, too.
function isLogTick(value, scale) {
  const first = Number(value.toExponential(6).split("e")[0]);
  return first === 1 || (scale.max / scale.min < 100 && (first === 2 || first === 5));
}

function tooFew(host) {
  const place = document.getElementById(host);
  if (place) place.textContent = "Too few readings for a chart.";
}

function buildPanels() {
  const has = (panel) =>
    panel.t_ms.length > 1 && panel.arms.some((band) => band.mean.some((v) => v !== null));
  if (has(DATA.rss)) rssChart();
  else tooFew("chart-rss");
  for (const part of DATA.heap) {
    if (has(part.panel)) heapChart(part);
    else tooFew("chart-heap-" + part.id);
  }
  if (has(DATA.cpu))
    rateChart(
      "chart-cpu",
      "CPU of each arm over time",
      DATA.cpu,
      100,
      (v) => tick(v) + " %",
      (v) => digits(v) + " %",
    );
  else tooFew("chart-cpu");
  if (has(DATA.faults))
    rateChart(
      "chart-faults",
      "Minor faults of each arm over time",
      DATA.faults,
      1,
      (v) => count(v).replace(/\.0+\b/, ""),
      (v) => count(v) + "/s",
    );
  else tooFew("chart-faults");
  if (DATA.latency.some((line) => line.t_ms.length > 1)) latencyChart();
  else if (DATA.latency.length) tooFew("chart-latency");
}
