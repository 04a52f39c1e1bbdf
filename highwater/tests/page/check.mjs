// Looks at the pages in a folder with a real browser. One JSON line per observation on stdout:
// {"page", "what", "ok", "seen"}; the Rust test reads them. Exit code 0 unless the browser itself fails.
//
//   node check.mjs FOLDER CHROMIUM

import { readdirSync } from "node:fs";
import { chromium } from "playwright-core";

const [folder, executablePath] = process.argv.slice(2);
const WIDE = { width: 1280, height: 900 },
  NARROW = { width: 390, height: 844 };

let page, name;
const say = (what, ok, seen = "") =>
  console.log(JSON.stringify({ page: name, what, ok: Boolean(ok), seen: String(seen) }));

// Opens the page and notes everything that must not happen.
async function open(browser, viewport, colorScheme) {
  const context = await browser.newContext({ viewport, colorScheme });
  page = await context.newPage();
  const tools = await context.newCDPSession(page);
  await tools.send("Performance.enable", { timeDomain: "threadTicks" });
  const wrong = [],
    requests = [];
  page.on("console", (message) => {
    if (["error", "warning"].includes(message.type())) wrong.push(message.text());
  });
  page.on("pageerror", (error) => wrong.push(String(error)));
  page.on("dialog", (dialog) => {
    wrong.push("dialog: " + dialog.message());
    dialog.dismiss();
  });
  page.on("request", (request) => requests.push(request.url()));
  await page.goto(`file://${folder}/${name}.html`);
  await page.waitForSelector("html[data-ready]", { timeout: 60_000 });
  await page.waitForTimeout(100); // charts draw in a microtask, the names after that
  const { metrics } = await tools.send("Performance.getMetrics");
  const cpu_s = metrics.find((metric) => metric.name === "TaskDuration").value;
  return { context, wrong, requests, cpu_s };
}

// Pixels of a copy: reading the page's own canvas would slow it down, and make the browser complain.
const PIXELS = `(canvas, width) => {
  const copy = new OffscreenCanvas(canvas.width, canvas.height).getContext("2d", { willReadFrequently: true });
  copy.drawImage(canvas, 0, 0);
  return copy.getImageData(0, 0, Math.floor(canvas.width * width), canvas.height).data;
}`;

// Pixels of a chart that have been drawn upon.
const inked = (selector) =>
  page.evaluate(
    ([selector, PIXELS]) => {
      const canvas = document.querySelector(selector + " canvas");
      if (!canvas) return 0;
      const data = (0, eval)(PIXELS)(canvas, 1);
      let count = 0;
      for (let at = 3; at < data.length; at += 4) count += data[at] > 0 ? 1 : 0;
      return count;
    },
    [selector, PIXELS],
  );

// Pixels in (about) the colour of an arm.
const inkedBy = (selector, arm) =>
  page.evaluate(
    ([selector, arm, PIXELS]) => {
      const probe = document.querySelector(`#legend button[data-arm="${arm}"] .swatch`);
      const [r, g, b] = getComputedStyle(probe).color.match(/\d+/g).map(Number);
      const canvas = document.querySelector(selector + " canvas");
      // Left of the names at the ends of the lines.
      const data = (0, eval)(PIXELS)(canvas, 0.8);
      let count = 0;
      for (let at = 0; at < data.length; at += 4) {
        if (
          data[at + 3] > 200 &&
          Math.abs(data[at] - r) + Math.abs(data[at + 1] - g) + Math.abs(data[at + 2] - b) < 24
        )
          count++;
      }
      return count;
    },
    [selector, arm, PIXELS],
  );

const scaleOf = () =>
  page.evaluate(() => timeCharts.map((chart) => [chart.u.scales.x.min, chart.u.scales.x.max]));
const over = (id) => page.locator(`#chart-${id} .u-over`);

async function wide(browser) {
  const { context, wrong, requests, cpu_s } = await open(browser, WIDE, "light");
  say(
    "interactive after ms (printed, not judged)",
    true,
    await page.getAttribute("html", "data-ready"),
  );
  say("CPU seconds of its main thread (printed, not judged)", true, cpu_s.toFixed(3));
  const charts = await page.evaluate(() => timeCharts.map((chart) => chart.plot.parentElement.id));
  say("charts are there", charts.includes("chart-rss") && charts.includes("chart-cpu"), charts);
  for (const id of charts)
    say(`${id} has drawn`, (await inked("#" + id)) > 2_000, await inked("#" + id));
  say(
    "dots by age",
    (await page.locator("#chart-ages circle").count()) > 1,
    await page.locator("#chart-ages circle").count(),
  );
  await hover();
  await legend();
  await zoom();
  await keys();
  await age();
  if (await page.locator("#chart-heat").count()) {
    await heat();
    await percentiles();
  }
  if (name === "pausing") await pausing();
  await tables();
  await theme();
  say("nothing went wrong", wrong.length === 0, wrong.join(" | "));
  say("no request but the page", requests.length === 1, requests.join(" "));
  await context.close();
}

async function hover() {
  const before = await page.locator("#chart-rss .readout").innerText();
  await over("rss").scrollIntoViewIfNeeded();
  const box = await over("rss").boundingBox();
  await page.mouse.move(box.x + box.width / 2, box.y + box.height / 2);
  const after = await page.locator("#chart-rss .readout").innerText();
  say(
    "hover shows values",
    after !== before && /\d [KMGT]?i?B/.test(after),
    after.replace(/\s+/g, " ").slice(0, 160),
  );
  const cpu = await page.locator("#chart-cpu .readout").innerText();
  say(
    "the other charts follow the cursor",
    /\d %/.test(cpu),
    cpu.replace(/\s+/g, " ").slice(0, 80),
  );
  await page.mouse.move(2, 2);
}

async function legend() {
  const button = page.locator('#legend button[data-arm="1"]');
  const before = await inkedBy("#chart-rss", 1);
  await button.click();
  await page.waitForTimeout(60);
  const hidden = await inkedBy("#chart-rss", 1);
  say("legend hides a line", before > 50 && hidden < before / 5, `${before} -> ${hidden}`);
  say("legend says so", (await button.getAttribute("aria-pressed")) === "false");
  await button.press("Enter");
  await page.waitForTimeout(60);
  const again = await inkedBy("#chart-rss", 1);
  say("legend shows it again, by keyboard", again > before / 2, again);
  await button.dblclick();
  const pressed = await page.locator('#legend button[aria-pressed="true"]').count();
  say("double click shows only one", pressed === 1, pressed);
  await page.locator("#legend .all").click();
}

async function zoom() {
  const full = await scaleOf();
  const box = await over("rss").boundingBox();
  await page.mouse.move(box.x + box.width * 0.3, box.y + 60);
  await page.mouse.down();
  await page.mouse.move(box.x + box.width * 0.6, box.y + 70, { steps: 5 });
  await page.mouse.up();
  await page.waitForTimeout(60);
  const zoomed = await scaleOf();
  const part = (zoomed[0][1] - zoomed[0][0]) / (full[0][1] - full[0][0]);
  say("drag zooms to what was dragged over", part > 0.25 && part < 0.35, part);
  const same = zoomed.every(
    ([from, to]) => Math.abs(from - zoomed[0][0]) < 1e-6 && Math.abs(to - zoomed[0][1]) < 1e-6,
  );
  say("all charts zoom together", same, JSON.stringify(zoomed));
  const reset = page.locator(".chart-rss .tools button");
  say("reset is offered", await reset.isVisible());
  await reset.click();
  await page.waitForTimeout(60);
  say(
    "reset shows all",
    JSON.stringify(await scaleOf()) === JSON.stringify(full),
    JSON.stringify(await scaleOf()),
  );
  say("reset is gone", !(await reset.isVisible()));
}

async function keys() {
  await page.locator("#chart-rss .plot").focus();
  await page.keyboard.press("ArrowRight");
  await page.keyboard.press("+");
  await page.waitForTimeout(60);
  const [[from, to], ...rest] = await scaleOf();
  const whole = await page.evaluate(() => timeCharts[0].full);
  say("plus zooms", to - from < (whole[1] - whole[0]) * 0.6, to - from);
  await page.keyboard.press("0");
  await page.waitForTimeout(60);
  say("0 resets", (await scaleOf())[0][1] === whole[1], rest.length);
}

async function age() {
  const slider = page.locator("#age");
  const place = () =>
    page
      .locator("#chart-ages circle")
      .evaluateAll((all) => all.map((dot) => dot.getAttribute("cx")).join());
  const before = await place();
  await slider.fill("40");
  const after = await place();
  say(
    "the age slider moves the dots",
    before !== after && after.length > 0,
    await page.locator(".age output").innerText(),
  );
}

// A map for each arm that has requests, drawn in more than one shade, that answers to the pointer, hides with its arm
// and is drawn anew in the dark.
async function heat() {
  const arms = await page.evaluate(() => DATA.latency.length);
  const maps = page.locator("#chart-heat canvas");
  say("a map for each arm", (await maps.count()) === arms, `${await maps.count()} of ${arms}`);
  const shades = () =>
    page.evaluate((PIXELS) => {
      const data = (0, eval)(PIXELS)(document.querySelector("#chart-heat canvas"), 1);
      const seen = new Map();
      for (let at = 0; at < data.length; at += 4)
        if (data[at + 3] === 255) {
          const colour = (data[at] << 16) | (data[at + 1] << 8) | data[at + 2];
          seen.set(colour, (seen.get(colour) || 0) + 1);
        }
      return [...seen].filter(([, count]) => count > 60).map(([colour]) => colour);
    }, PIXELS);
  const light = await shades();
  say("the map has many shades", light.length > 5, light.length);
  await maps.first().scrollIntoViewIfNeeded();
  const box = await maps.first().boundingBox();
  const readout = page.locator("#chart-heat .readout");
  let told = "";
  for (let part = 0.1; part < 0.9 && !/ of /.test(told); part += 0.05) {
    await page.mouse.move(box.x + box.width / 2, box.y + box.height * part);
    told = (await readout.innerText()).replace(/\s+/g, " ");
  }
  say("the map tells its numbers", /\d (ms|µs|s): .* of .* requests/.test(told), told);
  await page.mouse.move(2, 2);
  const button = page.locator('#legend button[data-arm="1"]');
  await button.click();
  const shown = await page.locator("#chart-heat .map:not([hidden])").count();
  const lines = await page.locator("#chart-percentiles polyline").count();
  say("legend hides a map and a line", shown === arms - 1 && lines === arms - 1, `${shown} ${lines}`);
  await button.click();
  await page.locator("#theme").click();
  await page.waitForTimeout(60);
  const dark = await shades();
  say("the map is drawn anew in the dark", !dark.includes(light[0]) || dark[0] !== light[0], dark[0]);
  await page.locator("#theme").click();
}

async function percentiles() {
  const chart = page.locator("#chart-percentiles svg.percentiles");
  await chart.scrollIntoViewIfNeeded();
  // Latency never falls from one percentile to the next.
  const falls = await chart.locator("polyline").evaluateAll(
    (all) =>
      all.filter((line) => {
        const points = line.getAttribute("points").split(" ").map((p) => p.split(",").map(Number));
        return points.some(([x, y], at) => at && (x < points[at - 1][0] || y > points[at - 1][1]));
      }).length,
  );
  say("percentiles rise", falls === 0, falls);
  const box = await chart.boundingBox();
  await page.mouse.move(box.x + box.width * 0.4, box.y + box.height / 2);
  const told = (await page.locator("#chart-percentiles .readout").innerText()).replace(/\s+/g, " ");
  say("a percentile tells its values", /^\d.* %.* ms/.test(told), told.slice(0, 120));
  await page.mouse.move(2, 2);
}

// The run that was made with a pause of 6 ms every 12 s says so, and the arm without any says what that excludes.
async function pausing() {
  const words = await page.locator("#chart-heat .map p").allInnerTexts();
  say("a period is found", /every 12\.0 s/.test(words[1]), words[1]);
  say("random pauses have no period", /no period/.test(words[0]), words[0]);
  say("no pause says how long was watched", /^No pause in .* is excluded/.test(words[2]), words[2]);
}

// Every chart has its numbers in a table with a caption, and headings are in order.
async function tables() {
  const bare = await page.evaluate(
    () =>
      [...document.querySelectorAll("table")].filter((table) => !table.caption || !table.tHead)
        .length,
  );
  say("every table has a caption and a head", bare === 0, bare);
  const figures = await page.evaluate(() =>
    [...document.querySelectorAll("figure")]
      .filter((figure) => !figure.querySelector("table tbody tr"))
      .map((f) => f.className),
  );
  say("every chart has its numbers", figures.length === 0, figures);
  const levels = await page.evaluate(() =>
    [...document.querySelectorAll("h1,h2,h3,h4")].map((heading) => Number(heading.tagName[1])),
  );
  say(
    "headings do not skip a level",
    levels[0] === 1 && levels.every((level, at) => at === 0 || level <= levels[at - 1] + 1),
    levels.join(""),
  );
  say("contrast of text", (await contrast()) === "", await contrast());
}

// Texts whose colour stands out less than 4.5 to 1 (WCAG AA), computed from what is drawn.
const contrast = () =>
  page.evaluate(() => {
    const numbers = (colour) => (colour.match(/[\d.]+/g) || []).map(Number);
    const luminance = ([r, g, b]) =>
      [r, g, b]
        .map((c) => c / 255)
        .map((c) => (c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4))
        .reduce((sum, c, at) => sum + c * [0.2126, 0.7152, 0.0722][at], 0);
    const behind = (node) => {
      for (let at = node; at; at = at.parentElement) {
        const colour = numbers(getComputedStyle(at).backgroundColor);
        if (colour.length && (colour.length < 4 || colour[3] > 0.99)) return colour;
      }
      return [255, 255, 255];
    };
    const weak = new Set();
    for (const node of document.querySelectorAll("body *:not(script):not(style)")) {
      const text = [...node.childNodes].some(
        (child) => child.nodeType === 3 && child.textContent.trim(),
      );
      if (!text || !node.getClientRects().length) continue;
      const style = getComputedStyle(node);
      const ink = node.closest("svg") ? style.fill : style.color;
      const [a, b] = [
        luminance(numbers(ink)),
        luminance(behind(node.closest("svg") ? node.closest("svg") : node)),
      ];
      const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
      if (ratio < 4.5)
        weak.add(`${node.tagName}.${node.getAttribute("class")} ${ratio.toFixed(2)}`);
    }
    return [...weak].slice(0, 5).join("; ");
  });

async function theme() {
  const paper = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  const light = await paper();
  await page.locator("#theme").click();
  await page.waitForTimeout(60);
  say("the switch turns the page dark", light !== (await paper()), await paper());
  say("charts draw in the dark", (await inked("#chart-rss")) > 2_000);
  say("contrast of text in the dark", (await contrast()) === "", await contrast());
}

// On a telephone nothing is wider than the screen.
async function narrow(browser) {
  for (const scheme of ["light", "dark"]) {
    const { context, wrong } = await open(browser, NARROW, scheme);
    const width = await page.evaluate(() => document.documentElement.scrollWidth);
    say(`no horizontal scroll at 390 px, ${scheme}`, width <= 390, width);
    say(
      `charts fit, ${scheme}`,
      await page.evaluate(() => timeCharts.every((chart) => chart.u.width <= 360)),
    );
    const wide = await page.evaluate(
      () =>
        [...document.querySelectorAll("#chart-heat canvas, .percentiles")].filter(
          (chart) => chart.getBoundingClientRect().right > 390,
        ).length,
    );
    say(`maps and percentiles fit, ${scheme}`, wide === 0, wide);
    const covered = await page.evaluate(() =>
      [...document.querySelectorAll(".arms td .label")]
        .filter((label) => {
          const [own, cell] = [label, label.closest("td")].map((at) => at.getBoundingClientRect());
          return own.right > cell.right + 1;
        })
        .map((label) => label.textContent),
    );
    say(`no label covers its neighbour, ${scheme}`, covered.length === 0, covered);
    await page
      .locator("#chart-rss .u-over")
      .tap?.()
      .catch(() => {});
    say(`nothing went wrong at 390 px, ${scheme}`, wrong.length === 0, wrong.join(" | "));
    await context.close();
  }
}

// On A4 with margins of 1 cm, from a dark screen: white paper, and nothing beyond its edge.
async function paper(browser) {
  const PAPER_PX = 718;
  const { context, wrong } = await open(browser, WIDE, "dark");
  await page.evaluate(() => dispatchEvent(new Event("beforeprint")));
  await page.emulateMedia({ media: "print", colorScheme: "dark" });
  await page.setViewportSize({ width: PAPER_PX, height: 1000 });
  await page.waitForTimeout(60);
  const ground = await page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  say("paper is white", ground === "rgb(255, 255, 255)", ground);
  say("contrast of text on paper", (await contrast()) === "", await contrast());
  const beyond = await page.evaluate(
    (edge) =>
      [...document.querySelectorAll(".arms, .arms td, canvas, svg, .plans")]
        .filter((part) => part.getBoundingClientRect().right > edge + 1)
        .map((part) => part.tagName + " " + part.className),
    PAPER_PX,
  );
  say("nothing lies beyond the edge of the paper", beyond.length === 0, beyond.slice(0, 5));
  await page.evaluate(() => dispatchEvent(new Event("afterprint")));
  await page.emulateMedia({ media: "screen", colorScheme: "dark" });
  const after = await page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  say("the screen is dark again", after !== ground, after);
  say("nothing went wrong on paper", wrong.length === 0, wrong.join(" | "));
  await context.close();
}

// Names stay text: no element of theirs exists, and they can be read.
async function hostile(browser) {
  const { context, wrong } = await open(browser, WIDE, "light");
  const elements = await page.evaluate(
    () => document.querySelectorAll("img, iframe, object, embed, link, form").length,
  );
  say("no element came out of a name", elements === 0, elements);
  const text = await page.evaluate(() => document.body.innerText);
  say("the name is readable", text.includes("</script><img src=x onerror=alert(1)>"));
  say("nothing hides or turns text", !/[\u202e\u200b\u0000\u001b]/.test(text));
  say("the scripts ran to their end", (await page.locator("#legend button").count()) > 3);
  say("nothing went wrong with hostile names", wrong.length === 0, wrong.join(" | "));
  await context.close();
}

// A run of which nothing was recorded has a page without charts.
async function empty(browser) {
  const { context, wrong } = await open(browser, WIDE, "light");
  say("the answer is there", /Undecided/.test(await page.locator(".answer").innerText()));
  say("no chart is drawn from nothing", (await page.locator("canvas").count()) === 0);
  say("nothing went wrong with nothing", wrong.length === 0, wrong.join(" | "));
  await context.close();
}

const browser = await chromium.launch({ executablePath, args: ["--no-sandbox"] });
for (const file of readdirSync(folder)
  .filter((file) => file.endsWith(".html"))
  .sort()) {
  name = file.replace(/\.html$/, "");
  if (name === "empty") {
    await empty(browser);
    continue;
  }
  await wide(browser);
  await narrow(browser);
  await paper(browser);
  if (name === "hostile") await hostile(browser);
}
await browser.close();
