// The live page: fetches new data from the server once a second and draws it, charts by charts.js. No libraries, no
// foreign resources.
"use strict";

const secondsKept = 300; // in points of one second, as the server keeps them
const taskTexts = {
  RV: "receive", PP: "parse", MM: "memory", Search: "search", Insert: "insert", Delete: "delete", KC: "key compare", RD: "read value", WR: "write response", SD: "send",
};
let points = [], coarse = []; // of one and of ten seconds
let sequence = 0;
let uptime = 0;

const $ = (id) => document.getElementById(id);

function element(tag, attributes = {}, ...children) {
  const e = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) e.setAttribute(name, value);
  e.append(...children);
  return e;
}

// 1234567 as 1.23 M
function short(n) {
  for (const [unit, size] of [["G", 1e9], ["M", 1e6], ["k", 1e3]]) {
    if (n >= size) return `${(n / size).toPrecision(3)} ${unit}`;
  }
  return n >= 100 || Number.isInteger(n) ? Math.round(n).toString() : n.toPrecision(2);
}

function bytes(n) {
  for (const [unit, size] of [["GiB", 2 ** 30], ["MiB", 2 ** 20], ["KiB", 2 ** 10]]) {
    if (n >= size) return `${(n / size).toFixed(n >= 100 * size ? 0 : 1)} ${unit}`;
  }
  return `${n} B`;
}

function micros(us) {
  if (us >= 1e6) return `${(us / 1e6).toPrecision(3)} s`;
  if (us >= 1e3) return `${(us / 1e3).toPrecision(3)} ms`;
  return us === 0 ? "–" : `${us.toPrecision(3)} µs`;
}

function nanos(ns) {
  return ns >= 1e3 ? micros(ns / 1e3) : ns === 0 ? "–" : `${ns.toPrecision(3)} ns`;
}

// For ticks: 50.0 µs as 50 µs.
const trimmed = (show) => (v) => show(v).replace(/(\.\d*?)0+(?= |$)/, "$1").replace(/\.(?= |$)/, "");

const percent = (share, digits = 1) => `${(100 * share).toFixed(digits)} %`;

function duration(s) {
  const days = Math.floor(s / 86400), hours = Math.floor(s / 3600) % 24, minutes = Math.floor(s / 60) % 60;
  if (days > 0) return `${days} d ${hours} h`;
  if (hours > 0) return `${hours} h ${minutes} min`;
  return minutes > 0 ? `${minutes} min ${s % 60} s` : `${s} s`;
}

const requests = (p) => p.gets_per_s + p.stores_per_s + p.others_per_s;
const hitRatio = (p) => (p.gets_per_s > 0 ? p.hits_per_s / p.gets_per_s : null);

// Appends the new points and keeps those of the last seconds.
function joined(old, more, seconds) {
  const last = old.at(-1)?.time_s ?? -Infinity;
  const both = [...old, ...more.filter((p) => p.time_s > last)];
  return both.filter((p) => p.time_s >= both.at(-1).time_s - seconds);
}

// Keys are URL-encoded; printable ASCII keys are shown decoded.
function keyText(key) {
  const text = key.replace(/%([2-7][0-9A-F])/g, (_, hex) => String.fromCharCode(parseInt(hex, 16)));
  return /^[!-~]*$/.test(text) && !/%[89A-F01]/.test(key) ? text : key;
}

function tile(name, value, more) {
  return element("div", { class: "tile" }, element("dl", {},
    element("dt", {}, name), element("dd", { class: "value" }, value), element("dd", { class: "more" }, more)));
}

function drawTiles(status) {
  const p = points.at(-1);
  const ratio = p ? hitRatio(p) : null;
  const { memory, connections, totals } = status;
  $("tiles").replaceChildren(
    tile("Requests per second", p ? short(requests(p)) : "–", p ? `${bytes(Math.round(p.received_bytes_per_s))}/s in, ${bytes(Math.round(p.sent_bytes_per_s))}/s out` : ""),
    tile("Latency p99", p ? micros(p.p99_us) : "–", p ? `p50 ${micros(p.p50_us)}` : ""),
    tile("Hit ratio", ratio === null ? "–" : percent(ratio), totals.gets ? `${percent(totals.hits / totals.gets)} in all` : "no gets yet"),
    tile("Memory", percent(memory.used_bytes / memory.limit_bytes, 0), `${bytes(memory.used_bytes)} of ${bytes(memory.limit_bytes)}, ${short(totals.items)} items`),
    tile("Evictions per second", p ? short(p.evictions_per_s) : "–", `${short(totals.evictions)} in all`),
    tile("Connections", short(connections.open), `of ${short(connections.max)}, ${status.threads} threads`));
}

function bar(share) {
  const fill = element("i");
  fill.style.width = `${Math.min(100, 100 * share)}%`;
  return element("div", { class: "bar", "aria-hidden": "true" }, fill);
}

function drawPipeline(tasks) {
  $("pipeline").replaceChildren(...tasks.map((t) => element("li", { "data-task": t.name },
    element("span", { class: "processor", "data-on": t.processor }, t.processor),
    element("span", { class: "task" }, t.name),
    element("span", { class: "what" }, taskTexts[t.name] ?? ""),
    element("span", { class: "time" }, nanos(t.ns_per_query)),
    element("span", { class: "what" }, `${percent(t.share, 0)} of time`),
    bar(t.share))));
}

function rows(id, cells, empty) {
  const body = $(id).tBodies[0];
  if (cells.length === 0) {
    body.replaceChildren(element("tr", {}, element("td", { class: "none", colspan: $(id).tHead.rows[0].cells.length + 1 }, empty)));
    return;
  }
  body.replaceChildren(...cells.map((row) => element("tr", {}, ...row)));
}

const td = (text) => element("td", {}, text);
const keyCell = (key) => element("td", { class: "key", title: keyText(key) }, keyText(key));
const meter = (share) => element("td", { class: "meter" }, bar(share));

const quantileCells = (us) => ["p50", "p90", "p99", "p99_9", "max"].map((q) => td(micros(us[q])));

// Of a preset that answers hot keys by the host alone.
function drawSplit(table) {
  $("split-card").hidden = table === null;
  if (table === null) return;
  const shown = (share) => (table.share === null ? "–" : percent(share));
  rows("split", [
    [td(`hot: ${short(table.keys)} keys`), td(shown(table.share)), ...quantileCells(table.hot_latency_us)],
    [td("cold"), td(shown(1 - table.share)), ...quantileCells(table.cold_latency_us)]], "");
}

function drawTables(status) {
  rows("commands", status.commands.map((c) => [td(c.name), td(short(c.per_s)), ...quantileCells(c.latency_us)]), "no commands yet");
  rows("classes", status.memory.classes.map((c) => [td(bytes(c.slot_bytes)), td(bytes(c.memory_bytes)),
    meter(c.slots ? c.slots_used / c.slots : 0), td(short(c.slots_used)), td(short(c.evictions))]), "no memory in use yet");
  const hot = status.hot_keys;
  const hottest = hot.keys.length > 0 ? hot.keys[0].share : 1;
  rows("hot", hot.keys.map((k) => [keyCell(k.key), meter(k.share / hottest), td(percent(k.share, 2)), td(percent(k.share_error, 2))]),
    hot.enabled ? "no requests in the last minute" : "turned off (--no-hot-keys)");
  drawSplit(status.hot_table);
  rows("big", status.big_keys.keys.map((k) => [keyCell(k.key), td(bytes(k.value_bytes))]), "no items yet");
}

charts.add("throughput", [
  { name: "gets", color: "blue", of: (p) => p.gets_per_s },
  { name: "stores", color: "teal", of: (p) => p.stores_per_s },
  { name: "others", color: "violet", of: (p) => p.others_per_s }], short, { tick: trimmed(short) });
const recorded = (us) => (us > 0 ? us : null); // 0: no command was sampled
charts.add("latency", [
  { name: "p50", color: "teal", of: (p) => recorded(p.p50_us) },
  { name: "p99", color: "amber", of: (p) => recorded(p.p99_us) },
  { name: "p99.9", color: "red", of: (p) => recorded(p.p99_9_us) }], micros, { tick: trimmed(micros), log: true });
charts.add("hits", [{ name: "hits", color: "teal", of: hitRatio }], percent, { tick: (v) => percent(v, 0), top: 1 });
charts.add("evictions", [{ name: "evicted", color: "amber", of: (p) => p.evictions_per_s }], short, { tick: trimmed(short) });

// Long ranges are drawn from points of ten seconds each.
function drawCharts() {
  const span_s = Number(document.querySelector("#range input:checked").value);
  const isCoarse = span_s > secondsKept && coarse.length > 0;
  charts.show({ points: isCoarse ? coarse : points, interval_s: isCoarse ? 10 : 1, span_s, end_s: points.at(-1)?.time_s ?? Date.now() / 1000 });
}

// The address contains the range, so a reloaded or shared page shows the same.
function readRange() {
  const wanted = new URLSearchParams(location.hash.slice(1)).get("range");
  const input = [...document.querySelectorAll("#range input")].find((i) => i.value === wanted);
  if (input) input.checked = true;
  drawCharts();
}

$("range").addEventListener("change", (event) => {
  history.replaceState(null, "", `#range=${event.target.value}`);
  drawCharts();
});
addEventListener("hashchange", readRange);

function say(state, text) {
  if ($("state").dataset.state === state) return;
  $("state").dataset.state = state;
  $("state").textContent = text;
}

async function update() {
  try {
    const reply = await fetch(`/api/status?since=${sequence}`, { cache: "no-store", signal: AbortSignal.timeout(5000) });
    if (!reply.ok) throw new Error(`status ${reply.status}`);
    const status = await reply.json();
    const isNew = status.uptime_s < uptime; // the server was restarted: the next update fetches everything
    uptime = status.uptime_s;
    sequence = isNew ? 0 : status.sequence;
    points = joined(points, status.points, secondsKept);
    coarse = joined(coarse, status.points_10s, 3600);
    $("about").textContent = `version ${status.version} · up ${duration(status.uptime_s)}`;
    drawTiles(status);
    drawPipeline(status.tasks);
    drawTables(status);
    drawCharts();
    say("live", "live");
  } catch {
    say("lost", "no answer from the server");
  }
  setTimeout(update, 1000);
}

addEventListener("resize", charts.redraw);
readRange();
update();
