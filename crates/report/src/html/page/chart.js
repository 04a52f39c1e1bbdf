// One chart over time: lines that share a time axis, names at their ends, values under the cursor, zoom by
// dragging, keys and touch. All charts over time zoom and point together.

const timeCharts = [];
const NARROW = 560;
// The last time on the axis stands under the end of the plot and reaches half its width beyond: "10:00", "100:00 h".
const HALF_A_TIME = 24;

// spec: { host, label, height, t_s, lines: [{ arm, kind, id, values }], ticks, value, log, marks, tools }
// kind: "mean" is drawn and named, "lo" and "hi" bound its band, "process" is thin.
function timeChart(spec) {
  const host = document.getElementById(spec.host);
  const tools = host.closest("figure").querySelector(".tools");
  const reset = element("button", { type: "button", hidden: "" }, "Reset zoom");
  const plot = element("div", {
    class: "plot",
    tabindex: "0",
    role: "group",
    "aria-label": spec.label + ". Arrow keys move the cursor, plus and minus zoom, 0 resets.",
  });
  const readout = element("div", { class: "readout", "aria-live": "polite" });
  tools.append(...(spec.tools || []), reset);
  host.append(plot, readout);
  const full = [0, DATA.took_s];
  const chart = { spec, plot, readout, full, labelWidth: 0 };
  const data = [spec.t_s, ...spec.lines.map((line) => line.values)];
  chart.u = new uPlot(options(chart), data, plot);
  chart.zoomed = () => chart.u.scales.x.min > full[0] || chart.u.scales.x.max < full[1];
  chart.afterZoom = () => {
    reset.hidden = !chart.zoomed();
  };
  reset.addEventListener("click", () => zoomAll(null));
  follow(chart, plot);
  tell(chart);
  timeCharts.push(chart);
  return chart;
}

function options(chart) {
  const { spec } = chart;
  const size = () => ({
    width: Math.max(chart.plot.clientWidth, 200),
    height: spec.height(chart.plot.clientWidth),
  });
  chart.size = size;
  const axis = {
    stroke: () => palette.muted,
    grid: { stroke: () => palette.grid, width: 1 },
    ticks: { show: false },
    font: "12px system-ui, sans-serif",
  };
  return {
    ...size(),
    legend: { show: false },
    padding: [10, () => Math.max(HALF_A_TIME, chart.plot.clientWidth < NARROW ? 0 : labelSpace(chart)), 0, 0],
    scales: {
      x: { time: false, auto: false, min: chart.full[0], max: chart.full[1] },
      y: spec.log ? { distr: 3, log: 10 } : { range: (u, min, max) => yRange(spec, min, max) },
    },
    axes: [
      {
        ...axis,
        incrs: TIME_STEPS,
        space: 70,
        size: 32,
        values: (u, splits, i, space, step) => timeTicks(splits, step),
      },
      {
        ...axis,
        size: spec.axisWidth || 56,
        values: (u, splits) => splits.map((v) => (v === null ? "" : spec.ticks(v, u.scales.y))),
      },
    ],
    series: [{}, ...spec.lines.map((line) => series(spec, line))],
    bands: bands(spec.lines),
    cursor: {
      drag: { x: true, y: false, setScale: true },
      points: { show: (u, i) => point(spec, u, i) },
      sync: {
        key: "time",
        setSeries: false,
        scales: ["x", null],
        filters: { pub: (type) => type === "mousemove" || type === "mouseleave" },
      },
      bind: {
        dblclick: () => () => {
          zoomAll(null);
          return null;
        },
      },
    },
    hooks: {
      draw: [(u) => drawMarks(chart, u), (u) => drawNames(chart, u)],
      setCursor: [() => tell(chart)],
      setScale: [
        (u, key) => {
          if (key === "x" && chart.ready) zoomAll([u.scales.x.min, u.scales.x.max], chart);
        },
      ],
      ready: [
        () => {
          chart.ready = true;
        },
      ],
    },
  };
}

function series(spec, line) {
  const arm = ARMS[line.arm];
  const base = { show: !hiddenArms.has(line.arm), points: { show: false }, spanGaps: false };
  if (line.kind === "lo" || line.kind === "hi") return { ...base, width: 0, stroke: null };
  if (line.kind === "process")
    return { ...base, width: 1, stroke: () => faded(line.arm, spec.thin || 0.4) };
  return {
    ...base,
    width: arm.control ? 2.5 : 2,
    dash: arm.dash,
    stroke: () => palette.arms[line.arm],
  };
}

function bands(lines) {
  const made = [];
  lines.forEach((line, at) => {
    if (line.kind === "hi")
      made.push({ series: [at + 1, at + 2], fill: () => faded(line.arm, 0.13) });
  });
  return made;
}

function yRange(spec, min, max) {
  if (min === null || max === null) return [0, 1];
  const low = spec.fromZero() ? Math.min(0, min) : min;
  const room = (max - low || Math.abs(max) || 1) * 0.06;
  return [low === 0 ? 0 : low - room, max + room];
}

// A dot on the mean lines only.
function point(spec, u, at) {
  const line = spec.lines[at - 1];
  if (!line || line.kind !== "mean") return false;
  const dot = document.createElement("div");
  dot.style.background = palette.arms[line.arm];
  dot.style.width = dot.style.height = "7px";
  dot.style.marginLeft = dot.style.marginTop = "-3.5px";
  return dot;
}

const shownMeans = (spec) =>
  spec.lines.filter((line) => line.kind === "mean" && !hiddenArms.has(line.arm));
const shortName = (name) => (name.length > 20 ? name.slice(0, 19) + "…" : name);

function labelSpace(chart) {
  if (!chart.labelWidth) {
    const context = document.createElement("canvas").getContext("2d");
    context.font = "12px system-ui, sans-serif";
    const names = chart.spec.lines
      .filter((line) => line.kind === "mean")
      .map((line) => ARMS[line.arm].name);
    chart.labelWidth =
      Math.max(20, ...names.map((name) => context.measureText(shortName(name)).width)) + 14;
  }
  return chart.labelWidth;
}

// Names of the arms at the ends of their lines, pushed apart where they would overlap.
function drawNames(chart, u) {
  if (chart.plot.clientWidth < NARROW) return;
  const ratio = devicePixelRatio,
    gap = 15 * ratio,
    { left, top, width, height } = u.bbox;
  const names = [];
  for (const line of shownMeans(chart.spec)) {
    for (let at = u.series[0].idxs ? u.series[0].idxs[1] : line.values.length - 1; at >= 0; at--) {
      if (line.values[at] == null) continue;
      const y = u.valToPos(line.values[at], "y", true);
      if (y >= top - gap && y <= top + height + gap) names.push({ y, arm: line.arm });
      break;
    }
  }
  names.sort((a, b) => a.y - b.y);
  if (names.length * gap > height + gap) return;
  for (let i = 1; i < names.length; i++) names[i].y = Math.max(names[i].y, names[i - 1].y + gap);
  let floor = top + height;
  for (let i = names.length - 1; i >= 0; i--) {
    names[i].y = Math.min(names[i].y, floor);
    floor = names[i].y - gap;
  }
  const context = u.ctx;
  context.save();
  context.font = 12 * ratio + "px system-ui, sans-serif";
  context.textBaseline = "middle";
  context.textAlign = "left";
  for (const name of names) {
    context.fillStyle = palette.arms[name.arm];
    context.fillText(shortName(ARMS[name.arm].name), left + width + 8 * ratio, name.y);
  }
  context.restore();
}

function drawMarks(chart, u) {
  const marks = chart.spec.marks || [];
  const { left, top, width, height } = u.bbox,
    ratio = devicePixelRatio,
    context = u.ctx;
  context.save();
  context.strokeStyle = context.fillStyle = palette.open;
  context.lineWidth = ratio;
  context.setLineDash([2 * ratio, 4 * ratio]);
  for (const mark of marks) {
    const x = Math.round(u.valToPos(mark.t_s, "x", true)) + 0.5;
    if (x < left || x > left + width) continue;
    context.beginPath();
    context.moveTo(x, top);
    context.lineTo(x, top + height);
    context.stroke();
    context.beginPath();
    context.moveTo(x - 5 * ratio, top - 8 * ratio);
    context.lineTo(x + 5 * ratio, top - 8 * ratio);
    context.lineTo(x, top);
    context.fill();
  }
  context.restore();
}

// The values under the cursor, and what happened there.
function tell(chart) {
  const { u, spec, readout } = chart;
  const at = u ? u.cursor.idx : null;
  if (at == null) {
    const hint = matchMedia("(hover: none)").matches
      ? "Tap for values."
      : "Point for values, drag to zoom, double click resets.";
    readout.replaceChildren(hint);
    return;
  }
  const parts = [element("b", {}, clock(spec.t_s[at]))];
  for (const line of shownMeans(spec)) {
    if (line.values[at] == null) continue;
    parts.push(armValue(line.arm, spec.value(line.values[at])));
  }
  const near = nearest(chart, at);
  if (near)
    parts.push(
      element(
        "span",
        { class: "value" },
        "nearest process " + near.id + " ",
        element("b", {}, spec.value(near.values[at])),
      ),
    );
  const reach = (u.scales.x.max - u.scales.x.min) * 0.008;
  for (const mark of (spec.marks || [])
    .filter((m) => Math.abs(m.t_s - spec.t_s[at]) <= reach)
    .slice(0, 4)) {
    parts.push(element("span", {}, clock(mark.t_s) + " " + mark.words));
  }
  readout.replaceChildren(...parts);
}

function nearest(chart, at) {
  const { u, spec } = chart;
  if (u.cursor.top == null || u.cursor.top < 0) return null;
  let best = null,
    distance = 40;
  for (const line of spec.lines) {
    if (line.kind !== "process" || line.values[at] == null || hiddenArms.has(line.arm)) continue;
    const away = Math.abs(u.valToPos(line.values[at], "y") - u.cursor.top);
    if (away < distance) {
      best = line;
      distance = away;
    }
  }
  return best;
}

let zooming = false;

// The same stretch of time in every chart; null shows all of it.
function zoomAll(stretch, source) {
  if (zooming) return;
  zooming = true;
  for (const chart of timeCharts) {
    const [from, to] = stretch || chart.full;
    const stays =
      chart === source || (chart.u.scales.x.min === from && chart.u.scales.x.max === to);
    if (!stays)
      chart.u.setScale("x", {
        min: Math.max(from, chart.full[0]),
        max: Math.min(to, chart.full[1]),
      });
  }
  queueMicrotask(() => {
    zooming = false;
    for (const chart of timeCharts) chart.afterZoom();
  });
}

// Arms, width, keys and touch.
function follow(chart, plot) {
  const { u, spec } = chart;
  armListeners.push(() =>
    u.batch(() =>
      spec.lines.forEach((line, at) => {
        const show = !hiddenArms.has(line.arm);
        if (u.series[at + 1].show !== show) u.setSeries(at + 1, { show });
      }),
    ),
  );
  onWidth(plot, () => u.setSize(chart.size()));
  plot.addEventListener("keydown", (event) => key(chart, event));
  u.over.addEventListener(
    "touchmove",
    (event) => {
      const box = u.over.getBoundingClientRect(),
        touch = event.touches[0];
      u.setCursor({ left: touch.clientX - box.left, top: touch.clientY - box.top });
    },
    { passive: true },
  );
}

function key(chart, event) {
  const { u } = chart,
    width = u.over.clientWidth;
  const left = u.cursor.left >= 0 ? u.cursor.left : width / 2;
  const move = (to) =>
    u.setCursor({ left: Math.min(Math.max(to, 0), width - 1), top: u.over.clientHeight / 2 });
  const zoom = (factor) => {
    const centre = u.posToVal(left, "x"),
      { min, max } = u.scales.x;
    const from = Math.max(centre - (centre - min) * factor, chart.full[0]);
    const to = Math.min(centre + (max - centre) * factor, chart.full[1]);
    if (to - from > 0) u.setScale("x", { min: from, max: to });
  };
  const actions = {
    ArrowLeft: () => move(left - width / 100),
    ArrowRight: () => move(left + width / 100),
    Home: () => move(0),
    End: () => move(width - 1),
    "+": () => zoom(0.5),
    "=": () => zoom(0.5),
    "-": () => zoom(2),
    0: () => zoomAll(null),
    Escape: () => zoomAll(null),
  };
  if (!actions[event.key] || event.ctrlKey || event.metaKey || event.altKey) return;
  event.preventDefault();
  actions[event.key]();
}
