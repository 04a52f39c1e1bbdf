// The theme switch, and everything in its order.

const themeListeners = [];

function isDark() {
  const chosen = document.documentElement.dataset.theme;
  return chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
}

function applyTheme() {
  readPalette();
  document.getElementById("theme").textContent = isDark() ? "Light" : "Dark";
  for (const chart of timeCharts) if (chart.ready) chart.u.redraw(false);
  for (const listener of themeListeners) listener();
}

function buildThemeSwitch() {
  const button = document.getElementById("theme");
  button.addEventListener("click", () => {
    document.documentElement.dataset.theme = isDark() ? "light" : "dark";
    applyTheme();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", applyTheme);
  button.hidden = false;
}

// The canvases are drawn anew for white paper, and back.
function buildPrinting() {
  const root = document.documentElement;
  let chosen;
  addEventListener("beforeprint", () => {
    chosen = root.dataset.theme;
    root.dataset.theme = "light";
    applyTheme();
  });
  addEventListener("afterprint", () => {
    if (chosen) root.dataset.theme = chosen;
    else delete root.dataset.theme;
    applyTheme();
  });
}

if (DATA) {
  readPalette();
  buildThemeSwitch();
  buildPrinting();
  buildLegend();
  buildPanels();
  buildDistribution();
  if (DATA.latency.length) {
    buildPercentiles();
    buildHeat();
  }
  applyTheme();
  document.documentElement.dataset.ready = String(Math.round(performance.now()));
}
