// The live page: asks the server for what is new once a second and draws it. No libraries, nothing from elsewhere.
"use strict";

const pointsMax = 300;
const taskTexts = {
  RV: "receive", PP: "parse", MM: "memory", Search: "search", Insert: "insert", Delete: "delete", KC: "key compare", RD: "read value", WR: "write response", SD: "send",
};
let points = [];
let sequence = 0;
let uptime = 0;

const $ = (id) => document.getElementById(id);

function element(tag, attributes = {}, ...children) {
  const e = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) e.setAttribute(name, value);
  e.append(...children);
  return e;
}

function svg(tag, attributes = {}, text = "") {
  const e = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) e.setAttribute(name, value);
  if (text !== "") e.textContent = text;
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

const percent = (share, digits = 1) => `${(100 * share).toFixed(digits)} %`;

function duration(s) {
  const days = Math.floor(s / 86400), hours = Math.floor(s / 3600) % 24, minutes = Math.floor(s / 60) % 60;
  if (days > 0) return `${days} d ${hours} h`;
  if (hours > 0) return `${hours} h ${minutes} min`;
  return minutes > 0 ? `${minutes} min ${s % 60} s` : `${s} s`;
}

const requests = (p) => p.gets_per_s + p.stores_per_s + p.others_per_s;
const hitRatio = (p) => (p.gets_per_s > 0 ? p.hits_per_s / p.gets_per_s : null);

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
    element("span", { class: "what" }, `${percent(t.share, 0)} of the time`),
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
const keyCell = (key) => element("td", { class: "key", title: key }, key);
const meter = (share) => element("td", { class: "meter" }, bar(share));

function drawTables(status) {
  rows("commands", status.commands.map((c) => [td(c.name), td(short(c.per_s)),
    ...["p50", "p90", "p99", "p99_9", "max"].map((q) => td(micros(c.latency_us[q])))]), "no commands yet");
  rows("classes", status.memory.classes.map((c) => [td(bytes(c.slot_bytes)), td(bytes(c.memory_bytes)),
    meter(c.slots ? c.slots_used / c.slots : 0), td(short(c.slots_used)), td(short(c.evictions))]), "no memory in use yet");
  const hot = status.hot_keys;
  const hottest = hot.keys.length > 0 ? hot.keys[0].share : 1;
  rows("hot", hot.keys.map((k) => [keyCell(k.key), meter(k.share / hottest), td(percent(k.share, 2)), td(percent(k.share_error, 2))]),
    hot.enabled ? "no requests were sampled yet" : "turned off (--no-hot-keys)");
  rows("big", status.big_keys.keys.map((k) => [keyCell(k.key), td(bytes(k.value_bytes))]), "no items yet");
}

// Lines over the last five minutes. series: {name, color, of: point -> number or null}
function drawChart(id, series, show, { log = false, top = null } = {}) {
  const chart = $(id);
  const width = chart.clientWidth || 600, height = chart.clientHeight || 190;
  const left = 58, right = 8, above = 6, below = 20;
  chart.setAttribute("viewBox", `0 0 ${width} ${height}`);
  const values = points.flatMap((p) => series.map((s) => s.of(p))).filter((v) => v !== null && (!log || v > 0));
  let high = top ?? Math.max(1, ...values) * (log ? 1.3 : 1.08), low = 0;
  if (log) {
    low = 10 ** Math.floor(Math.log10(values.length > 0 ? Math.min(...values) : 1));
    high = Math.max(10 * low, 10 ** Math.ceil(Math.log10(high)));
  }
  const end = points.length > 0 ? points.at(-1).time_s : 0;
  const span = points.length <= 60 ? 60 : points.length <= 150 ? 150 : pointsMax;
  const x = (time) => left + (width - left - right) * (1 - (end - time) / span);
  const y = (v) => {
    const share = log ? (Math.log10(Math.max(v, low)) - Math.log10(low)) / (Math.log10(high) - Math.log10(low)) : (v - low) / (high - low);
    return height - below - (height - above - below) * Math.min(1, Math.max(0, share));
  };
  const parts = [];
  const marks = log
    ? Array.from({ length: Math.round(Math.log10(high / low)) + 1 }, (_, i) => low * 10 ** i)
    : [0, 0.25, 0.5, 0.75, 1].map((share) => share * high);
  for (const v of marks) {
    parts.push(svg("line", { class: "grid", x1: left, x2: width - right, y1: y(v), y2: y(v) }));
    parts.push(svg("text", { x: left - 8, y: y(v) + 4, "text-anchor": "end" }, show(v)));
  }
  for (let ago = 0; ago < span; ago += span === pointsMax ? 60 : span / 5) {
    const text = ago === 0 ? "now" : span === pointsMax ? `−${ago / 60} min` : `−${ago} s`;
    parts.push(svg("text", { x: x(end - ago), y: height - 4, "text-anchor": ago === 0 ? "end" : "middle" }, text));
  }
  for (const s of series) {
    let line = "", begin = null, last = null, area = "";
    for (const p of points) {
      const v = s.of(p);
      if (v === null || (log && v <= 0) || x(p.time_s) < left) continue;
      const gap = last !== null && p.time_s - last > 3;
      line += `${line === "" || gap ? "M" : "L"}${x(p.time_s).toFixed(1)} ${y(v).toFixed(1)}`;
      begin ??= p.time_s;
      last = p.time_s;
    }
    if (line === "") continue;
    if (!log && series.length === 1) area = `${line}L${x(last).toFixed(1)} ${y(0)}L${x(begin).toFixed(1)} ${y(0)}Z`;
    if (area !== "") parts.push(svg("path", { class: `area ${s.color}`, d: area }));
    parts.push(svg("path", { class: `line ${s.color}`, d: line }));
  }
  chart.replaceChildren(...parts);
  const latest = points.at(-1);
  const legend = document.querySelector(`.legend[data-for="${id}"]`);
  legend.replaceChildren(...series.map((s) => {
    const v = latest ? s.of(latest) : null;
    return element("li", {}, element("i", { class: s.color }), `${s.name} `, element("b", {}, v === null ? "–" : show(v)));
  }));
}

function drawCharts() {
  drawChart("throughput", [
    { name: "gets", color: "blue", of: (p) => p.gets_per_s },
    { name: "stores", color: "teal", of: (p) => p.stores_per_s },
    { name: "others", color: "violet", of: (p) => p.others_per_s }], short);
  drawChart("latency", [
    { name: "p50", color: "teal", of: (p) => p.p50_us },
    { name: "p99", color: "amber", of: (p) => p.p99_us },
    { name: "p99.9", color: "red", of: (p) => p.p99_9_us }], micros, { log: true });
  drawChart("hits", [{ name: "hits", color: "teal", of: hitRatio }], (v) => percent(v, 0), { top: 1 });
  drawChart("evictions", [{ name: "evicted", color: "amber", of: (p) => p.evictions_per_s }], short);
}

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
    if (status.uptime_s < uptime) points = []; // the server was started anew
    uptime = status.uptime_s;
    sequence = status.sequence;
    points = [...points, ...status.points].slice(-pointsMax);
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

addEventListener("resize", drawCharts);
update();
