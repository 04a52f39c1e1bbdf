// The arms: colour, dash, name, and which of them are shown. All charts follow the same choice.

const DATA = JSON.parse(document.getElementById("data").textContent);
const COLOURS = 8;
const DASHES = [[], [7, 3], [2, 3], [10, 3, 2, 3], [14, 4]];
const hiddenArms = new Set();
const armListeners = [];

let others = 0;
const ARMS = DATA.arms.map((arm, index) => {
  const at = arm.control ? 0 : others++;
  return {
    index,
    name: arm.name,
    control: arm.control,
    colourClass: arm.control ? "arm-control" : "arm-" + (at % COLOURS),
    dash: arm.control ? [] : DASHES[at % DASHES.length],
  };
});

function element(tag, attributes, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

// Calls `draw` whenever the width of `host` has changed.
function onWidth(host, draw) {
  let width = host.clientWidth;
  new ResizeObserver(() => {
    if (host.clientWidth !== width) {
      width = host.clientWidth;
      draw();
    }
  }).observe(host);
}

// An arm's value in a readout.
function armValue(arm, words) {
  const mark = element("i", { class: "arm " + ARMS[arm].colourClass });
  return element("span", { class: "value" }, mark, ARMS[arm].name + " ", element("b", {}, words));
}

function svg(tag, attributes, text) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes || {})) made.setAttribute(name, value);
  if (text !== undefined) made.textContent = text;
  return made;
}

// Canvas needs colours as numbers; the theme has them as CSS variables.
const probe = element("span", { hidden: "" });
document.body.append(probe);
let palette = {};

function readPalette() {
  const resolved = (value) => {
    probe.style.color = value;
    return getComputedStyle(probe).color;
  };
  palette = {
    ink: resolved("var(--ink)"),
    muted: resolved("var(--muted)"),
    grid: resolved("var(--grid)"),
    paper: resolved("var(--paper)"),
    panel: resolved("var(--panel)"),
    open: resolved("var(--open)"),
    heat: [0, 1, 2, 3, 4].map((at) => channels(resolved("var(--heat-" + at + ")"))),
    arms: [],
  };
  for (const arm of ARMS) {
    palette.arms.push(resolved(arm.control ? "var(--ink)" : "var(--" + arm.colourClass + ")"));
  }
}

const channels = (colour) => colour.match(/[\d.]+/g).slice(0, 3).map(Number);

// The colour of an arm with an opacity.
function faded(arm, alpha) {
  return palette.arms[arm].replace("rgb(", "rgba(").replace(")", ", " + alpha + ")");
}

function swatch(arm) {
  const made = svg("svg", {
    class: "swatch arm " + arm.colourClass,
    viewBox: "0 0 28 8",
    width: 28,
    height: 8,
    "aria-hidden": "true",
  });
  made.append(
    svg("line", {
      x1: 1,
      y1: 4,
      x2: 27,
      y2: 4,
      stroke: "currentColor",
      "stroke-width": 2.5,
      "stroke-dasharray": arm.dash.join(" "),
    }),
  );
  return made;
}

function showArms() {
  for (const button of document.querySelectorAll("#legend button[data-arm]")) {
    button.setAttribute("aria-pressed", String(!hiddenArms.has(Number(button.dataset.arm))));
  }
  document.querySelector("#legend .all").hidden = hiddenArms.size === 0;
  for (const listener of armListeners) listener();
}

function buildLegend() {
  const legend = document.getElementById("legend");
  for (const arm of ARMS) {
    const button = element(
      "button",
      {
        type: "button",
        "data-arm": arm.index,
        "aria-pressed": "true",
        title: "Click hides or shows it, double click shows only it",
      },
      swatch(arm),
      element("span", {}, arm.name),
    );
    button.addEventListener("click", () => {
      if (!hiddenArms.delete(arm.index)) hiddenArms.add(arm.index);
      showArms();
    });
    button.addEventListener("dblclick", () => {
      hiddenArms.clear();
      for (const other of ARMS) if (other !== arm) hiddenArms.add(other.index);
      showArms();
    });
    legend.append(button);
  }
  const all = element("button", { type: "button", class: "all", hidden: "" }, "Show all");
  all.addEventListener("click", () => {
    hiddenArms.clear();
    showArms();
  });
  legend.append(all);
  legend.hidden = false;
}
