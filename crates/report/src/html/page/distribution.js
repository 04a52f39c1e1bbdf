// How the processes of each arm spread at an age that the reader chooses: one dot per process.

// RSS of a process, bytes, when its last incarnation that grew so old had this age; null when none did.
function atAge(line, age, t_s, slack) {
  for (let k = line.starts_s.length - 1; k >= 0; k--) {
    const t = line.starts_s[k] + age;
    const end = k + 1 < line.starts_s.length ? line.starts_s[k + 1] : Infinity;
    if (t >= end) continue;
    let low = 0,
      high = t_s.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (t_s[middle] <= t + slack / 2) low = middle + 1;
      else high = middle;
    }
    for (let at = low - 1; at >= 0 && t - t_s[at] <= slack; at--) {
      if (line.values[at] !== null && t_s[at] >= line.starts_s[k])
        return line.values[at] * DATA.rss.scale;
    }
  }
  return null;
}

const middleOf = (sorted) =>
  sorted.length % 2
    ? sorted[sorted.length >> 1]
    : (sorted[sorted.length / 2 - 1] + sorted[sorted.length / 2]) / 2;

function buildDistribution() {
  const panel = DATA.rss,
    host = document.getElementById("chart-ages");
  if (panel.t_ms.length < 2) return;
  const t_s = seconds(panel.t_ms);
  const slack = 2 * Math.max(...t_s.slice(1).map((t, at) => t - t_s[at]));
  const most =
    panel.processes.reduce((m, line) => line.values.reduce((a, v) => (v > a ? v : a), m), 0) *
    panel.scale;
  const unit = byteUnit(most);
  const lifetimes = panel.processes.map((line) => lifetime(line, t_s));
  const oldest = Math.max(...lifetimes);
  // At first the greatest age that every process reached, but for those that ended in the first half.
  const common = Math.min(...lifetimes.filter((life) => life > oldest / 2));
  const slider = element("input", {
    type: "range",
    min: "0",
    max: "400",
    value: String(Math.floor((400 * common) / oldest)),
    id: "age",
    "aria-label": "Age of the processes",
  });
  const output = element("output", { for: "age" });
  const strip = element("div", {});
  host.append(
    element("div", { class: "age" }, element("label", { for: "age" }, "At age"), slider, output),
    strip,
  );
  const draw = () => {
    const age = (oldest * Number(slider.value)) / 400;
    output.textContent = clock(age);
    slider.setAttribute("aria-valuetext", clock(age));
    const rows = ARMS.filter((arm) => !hiddenArms.has(arm.index)).map((arm) => ({
      arm,
      dots: panel.processes
        .filter((line) => line.arm === arm.index)
        .map((line) => ({ id: line.id, bytes: atAge(line, age, t_s, slack) }))
        .filter((dot) => dot.bytes !== null),
    }));
    strip.replaceChildren(stripChart(rows, most, unit, host.clientWidth));
  };
  onWidth(host, draw);
  slider.addEventListener("input", draw);
  armListeners.push(draw);
  draw();
}

// Seconds from the start of an incarnation to its last reading, the longest of all.
function lifetime(line, t_s) {
  let longest = 0;
  line.starts_s.forEach((start, k) => {
    const end = k + 1 < line.starts_s.length ? line.starts_s[k + 1] : Infinity;
    for (let at = t_s.length - 1; at >= 0 && t_s[at] >= start; at--) {
      if (t_s[at] < end && line.values[at] !== null) {
        longest = Math.max(longest, t_s[at] - start);
        break;
      }
    }
  });
  return longest;
}

// 1, 2 or 5 times a power of ten, so that about `wanted` steps fill the range.
function niceStep(range, wanted) {
  const raw = range / wanted,
    power = 10 ** Math.floor(Math.log10(raw));
  return [1, 2, 5, 10].map((n) => n * power).find((step) => step >= raw);
}

function stripChart(rows, most, unit, width) {
  const narrow = width < NARROW,
    left = narrow ? 8 : 150,
    right = narrow ? 12 : 210,
    row = narrow ? 44 : 30;
  const height = rows.length * row + 34;
  const top = (most / unit.factor) * 1.03 || 1;
  const x = (bytes) => left + (bytes / unit.factor / top) * (width - left - right);
  const made = svg("svg", {
    class: "strip",
    viewBox: "0 0 " + width + " " + height,
    role: "img",
    "aria-label": "RSS of each process at the chosen age",
  });
  const step = niceStep(top, narrow ? 4 : 7);
  for (let value = 0; value <= top; value += step) {
    const at = x(value * unit.factor);
    made.append(
      svg("line", { class: "guide", x1: at, x2: at, y1: 4, y2: height - 26 }),
      svg(
        "text",
        { x: at, y: height - 8, "text-anchor": narrow && value === 0 ? "start" : "middle" },
        tick(value) + (value === 0 || narrow ? "" : " " + unit.word),
      ),
    );
  }
  rows.forEach(({ arm, dots }, index) => {
    const y = index * row + (narrow ? 30 : 20);
    const sorted = dots.map((dot) => dot.bytes).sort((a, b) => a - b);
    const summary = sorted.length ? numbersOf(sorted, unit) : "none so old";
    made.append(
      svg(
        "text",
        { class: "who", x: narrow ? left : 0, y: narrow ? y - 14 : y + 4 },
        shortName(arm.name) + (narrow ? "  " : ""),
      ),
    );
    made.append(
      svg("text", { x: width, y: narrow ? y - 14 : y + 4, "text-anchor": "end" }, summary),
    );
    const group = svg("g", { class: "arm " + arm.colourClass });
    const mean = sorted.reduce((sum, v) => sum + v, 0) / sorted.length;
    if (sorted.length)
      group.append(
        svg("line", {
          x1: x(mean),
          x2: x(mean),
          y1: y - 9,
          y2: y + 9,
          stroke: "currentColor",
          "stroke-width": 2.5,
        }),
      );
    for (const dot of dots) {
      const circle = svg("circle", {
        cx: x(dot.bytes),
        cy: y,
        r: 4.5,
        fill: "currentColor",
        "fill-opacity": dots.length > 12 ? 0.3 : 0.55,
      });
      circle.append(
        svg("title", {}, dot.id + ": " + digits(dot.bytes / unit.factor) + " " + unit.word),
      );
      group.append(circle);
    }
    made.append(group);
  });
  return made;
}

function numbersOf(sorted, unit) {
  const number = (bytes) => digits(bytes / unit.factor);
  const range =
    sorted.length > 1
      ? " (" + number(sorted[0]) + "–" + number(sorted[sorted.length - 1]) + ")"
      : "";
  return number(middleOf(sorted)) + " " + unit.word + range;
}
