// Latency by percentile: to the right ever rarer requests, each step a tenth of those before.

const NINES = ["", "90 %", "99 %", "99.9 %", "99.99 %", "99.999 %", "99.9999 %", "99.99999 %"];

// Where a share of rarer requests stands; the longest request stands where one of all is.
const rarity = (rest, requests) => -Math.log10(rest > 0 ? rest : 1 / Math.max(requests, 2));

function percentileFrame(width) {
  const narrow = width < NARROW;
  const shown = DATA.latency.filter((line) => !hiddenArms.has(line.arm));
  const all = DATA.latency.flatMap((line) => line.quantiles.map((q) => Math.max(q[1], 1)));
  const low = Math.log10(Math.min(...all)),
    high = Math.log10(Math.max(...all));
  const right = Math.max(...DATA.latency.map((line) => rarity(0, line.requests)));
  const names = Math.max(...DATA.latency.map((line) => shortName(ARMS[line.arm].name).length));
  const frame = {
    narrow,
    shown,
    width,
    height: narrow ? 260 : 340,
    left: 56,
    foot: 26,
    space: narrow ? 12 : Math.min(170, 16 + names * 7),
    low: low - 0.05,
    high: Math.max(high, low + 0.5) + 0.05,
    from: -Math.log10(0.5),
    to: right,
  };
  frame.x = (r) =>
    frame.left +
    ((r - frame.from) / (frame.to - frame.from)) * (width - frame.left - frame.space);
  frame.y = (us) =>
    6 +
    (1 - (Math.log10(Math.max(us, 1)) - frame.low) / (frame.high - frame.low)) *
      (frame.height - frame.foot - 6);
  return frame;
}

function percentileAxes(frame, made) {
  const bottom = frame.height - frame.foot;
  const between = frame.high - frame.low < 3.5 ? [1, 2, 5] : [1];
  for (let decade = Math.floor(frame.low); decade <= frame.high; decade++)
    for (const part of between) {
      const us = part * 10 ** decade,
        y = frame.y(us);
      if (Math.log10(us) < frame.low || Math.log10(us) > frame.high) continue;
      made.append(
        svg("line", { class: "guide", x1: frame.left, x2: frame.width - frame.space, y1: y, y2: y }),
        svg("text", { x: frame.left - 8, y: y + 4, "text-anchor": "end" }, span(us / 1000)),
      );
    }
  const ticks = [[frame.from, "50 %"]];
  for (let nines = 1; nines <= frame.to && nines < NINES.length; nines++)
    ticks.push([nines, NINES[nines]]);
  ticks.forEach(([at, words], index) => {
    const x = frame.x(at);
    made.append(svg("line", { class: "guide", x1: x, x2: x, y1: 6, y2: bottom }));
    if (frame.narrow && index % 2 === 1 && ticks.length > 5) return;
    made.append(svg("text", { x, y: bottom + 17, "text-anchor": "middle" }, words));
  });
}

// Names at the ends of the lines, pushed apart.
function percentileNames(frame, made) {
  const ends = frame.shown.map((line) => ({
    arm: ARMS[line.arm],
    x: frame.x(rarity(0, line.requests)),
    y: frame.y(line.quantiles.at(-1)[1]),
  }));
  ends.sort((a, b) => a.y - b.y);
  const gap = 15,
    bottom = frame.height - frame.foot;
  if (ends.length * gap > bottom) return;
  for (let i = 1; i < ends.length; i++) ends[i].y = Math.max(ends[i].y, ends[i - 1].y + gap);
  let floor = bottom - 2;
  for (let i = ends.length - 1; i >= 0; i--) {
    ends[i].y = Math.min(ends[i].y, floor);
    floor = ends[i].y - gap;
  }
  for (const end of ends)
    made.append(
      svg(
        "text",
        { class: "end arm " + end.arm.colourClass, x: frame.width - frame.space + 8, y: end.y + 4 },
        shortName(end.arm.name),
      ),
    );
}

function percentileChart(frame) {
  const made = svg("svg", {
    class: "strip percentiles",
    viewBox: "0 0 " + frame.width + " " + frame.height,
    role: "img",
    "aria-label": "Latency of each arm by percentile",
  });
  percentileAxes(frame, made);
  for (const line of frame.shown) {
    const arm = ARMS[line.arm];
    const points = line.quantiles.map(
      ([rest, us]) =>
        frame.x(rarity(rest, line.requests)).toFixed(1) +
        "," +
        frame.y(us).toFixed(1),
    );
    const group = svg("g", { class: "arm " + arm.colourClass });
    group.append(
      svg("polyline", {
        points: points.join(" "),
        fill: "none",
        stroke: "currentColor",
        "stroke-width": arm.control ? 2.5 : 2,
        "stroke-linejoin": "round",
        "stroke-dasharray": arm.dash.join(" "),
      }),
    );
    made.append(group);
  }
  if (!frame.narrow) percentileNames(frame, made);
  return made;
}

const PERCENTILE_HINT = "Point for values: so many of the requests were as fast or faster.";

function tellPercentile(frame, event, readout, box) {
  const x = ((event.clientX - box.left) / box.width) * frame.width;
  const share = (x - frame.left) / (frame.width - frame.space - frame.left);
  if (share < 0 || share > 1) return readout.replaceChildren(PERCENTILE_HINT);
  const at = frame.from + share * (frame.to - frame.from);
  const words = (100 * (1 - 10 ** -at)).toFixed(Math.max(0, Math.ceil(at) - 1)) + " %";
  const parts = [element("b", {}, words)];
  for (const line of frame.shown) {
    if (at > rarity(0, line.requests) + 0.01) continue;
    const near = (q) => Math.abs(rarity(q[0], line.requests) - at);
    const value = line.quantiles.reduce((best, q) => (near(q) < near(best) ? q : best));
    parts.push(armValue(line.arm, digits(value[1] / 1000) + " ms"));
  }
  readout.replaceChildren(...parts);
}

function buildPercentiles() {
  const host = document.getElementById("chart-percentiles");
  const strip = element("div", {});
  const readout = element("div", { class: "readout", "aria-live": "polite" }, PERCENTILE_HINT);
  host.append(strip, readout);
  let frame;
  const draw = () => {
    frame = percentileFrame(host.clientWidth);
    strip.replaceChildren(percentileChart(frame));
  };
  strip.addEventListener("pointermove", (event) =>
    tellPercentile(frame, event, readout, strip.getBoundingClientRect()),
  );
  strip.addEventListener("pointerleave", () => readout.replaceChildren(PERCENTILE_HINT));
  onWidth(host, draw);
  armListeners.push(draw);
  draw();
}
