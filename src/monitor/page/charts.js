// Lines over time, as SVG: round ticks, gaps where there are no samples, values under the pointer. No libraries.
"use strict";

const charts = (() => {
  const left = 58, right = 10, above = 8, below = 22; // pixels around the plot
  const gapIntervals = 2.5; // points further apart than this many intervals are not connected
  const all = []; // the charts
  let view = { points: [], interval_s: 1, span_s: 300, end_s: 0 };
  let pointer = null; // {chart, share}: how far right in the plot, 0 to 1

  // Multiples of 1, 2 or 5 times a power of ten from `low` to at least `high`, about `count` steps.
  function roundTicks(low, high, count) {
    const rough = (high - low) / count || 1;
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = power * [1, 2, 5, 10].find((m) => m * power >= rough * (1 - 1e-9));
    const ticks = [];
    for (let i = Math.floor(low / step + 1e-9); ; ++i) {
      ticks.push(Number((i * step).toPrecision(12)));
      if (i * step >= high - step * 1e-9) return ticks;
    }
  }

  // Powers of ten; over less than two decades also 2 and 5 times them. The first is at most `low`, the last at least `high`.
  function logTicks(low, high) {
    const begin = Math.floor(Math.log10(low) + 1e-9), end = Math.ceil(Math.log10(high) - 1e-9);
    const ticks = [];
    for (let power = begin; power <= end; ++power) {
      for (const m of high / low < 100 ? [1, 2, 5] : [1]) ticks.push(Number((m * 10 ** power).toPrecision(12)));
    }
    const first = ticks.findLastIndex((v) => v <= low * (1 + 1e-9)), last = ticks.findIndex((v) => v >= high * (1 - 1e-9));
    const chosen = ticks.slice(Math.max(first, 0), last < 0 ? undefined : last + 1);
    return chosen.length > 1 ? chosen : [chosen[0], chosen[0] * 10];
  }

  // Round wall-clock times, in seconds since 1970.
  function timeTicks(begin, end, count) {
    const steps = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600];
    const step = steps.find((s) => (end - begin) / s <= count) ?? 3600;
    const zone_s = -60 * new Date(end * 1000).getTimezoneOffset();
    const ticks = [];
    for (let t = Math.ceil((begin + zone_s) / step) * step; t <= end + zone_s; t += step) ticks.push(t - zone_s);
    return ticks;
  }

  function clock(time_s, seconds) {
    const options = { hour: "2-digit", minute: "2-digit", hourCycle: "h23", ...(seconds ? { second: "2-digit" } : {}) };
    return new Date(time_s * 1000).toLocaleTimeString("en-GB", options);
  }

  // Runs of values without a gap between them: [[{time, value}, ...], ...].
  function runs(points, of, interval_s) {
    const found = [];
    let last = -Infinity;
    for (const p of points) {
      const value = of(p);
      if (value === null) continue;
      if (p.time_s - last > gapIntervals * interval_s) found.push([]);
      found.at(-1).push({ time: p.time_s, value });
      last = p.time_s;
    }
    return found;
  }

  function svg(tag, attributes = {}, text = "") {
    const e = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [name, value] of Object.entries(attributes)) e.setAttribute(name, value);
    if (text !== "") e.textContent = text;
    return e;
  }

  function scales(chart, points) {
    const { series, log, top } = chart;
    const width = chart.svg.clientWidth || 600, height = chart.svg.clientHeight || 190;
    const values = points.flatMap((p) => series.map((s) => s.of(p))).filter((v) => v !== null);
    const highest = Math.max(...values), lowest = Math.min(...values);
    const ticks = log ? logTicks(values.length ? lowest : 10, values.length ? highest : 1000) : roundTicks(0, top ?? Math.max(1, highest), 5);
    const map = log ? Math.log10 : (v) => v;
    const low = map(ticks[0]), high = map(ticks.at(-1));
    const begin = view.end_s - view.span_s;
    return {
      width, height, ticks, begin,
      x: (time) => left + ((width - left - right) * (time - begin)) / view.span_s,
      y: (v) => height - below - ((height - above - below) * (map(v) - low)) / (high - low),
    };
  }

  function drawAxes({ width, height, ticks, begin, x, y }, chart) {
    const parts = [];
    for (const v of ticks) {
      parts.push(svg("line", { class: "grid", x1: left, x2: width - right, y1: y(v), y2: y(v) }));
      parts.push(svg("text", { class: "value", x: left - 8, y: y(v) + 4, "text-anchor": "end" }, chart.tick(v)));
    }
    for (const time of timeTicks(begin, view.end_s, Math.max(2, Math.floor((width - left) / 90)))) {
      parts.push(svg("line", { class: "grid", x1: x(time), x2: x(time), y1: height - below, y2: height - below + 4 }));
      const anchor = x(time) > width - 24 ? "end" : x(time) < left + 16 ? "start" : "middle";
      parts.push(svg("text", { class: "time", x: x(time), y: height - 5, "text-anchor": anchor }, clock(time, view.span_s < 300)));
    }
    return parts;
  }

  function drawSeries(s, points, { x, y }, filled) {
    const parts = [];
    const at = (p) => `${x(p.time).toFixed(1)} ${y(p.value).toFixed(1)}`;
    const found = runs(points, s.of, view.interval_s);
    if (filled) {
      for (const run of found.filter((r) => r.length > 1)) {
        const floor = y(0).toFixed(1);
        parts.push(svg("path", { class: `area ${s.color}`, d: `M${run.map(at).join("L")}L${x(run.at(-1).time).toFixed(1)} ${floor}L${x(run[0].time).toFixed(1)} ${floor}Z` }));
      }
    }
    // A single point is a line of zero length: its round ends make a dot.
    const line = found.map((run) => `M${run.map(at).join("L")}${run.length === 1 ? "h0" : ""}`).join("");
    if (line !== "") parts.push(svg("path", { class: `line ${s.color}`, d: line }));
    return parts;
  }

  // The point under the pointer: null in a gap.
  function pointed(points) {
    const time = view.end_s - view.span_s * (1 - pointer.share);
    let best = null;
    for (const p of points) if (best === null || Math.abs(p.time_s - time) < Math.abs(best.time_s - time)) best = p;
    return best !== null && Math.abs(best.time_s - time) <= (gapIntervals / 2) * view.interval_s ? best : null;
  }

  function drawPointer(chart, points, { width, height, x, y }) {
    chart.tip.hidden = pointer === null || pointer.chart !== chart;
    if (pointer === null) return [];
    const p = pointed(points);
    const place = p === null ? left + pointer.share * (width - left - right) : x(p.time_s);
    const parts = [svg("line", { class: "pointer", x1: place, x2: place, y1: above, y2: height - below })];
    for (const s of chart.series) {
      const v = p === null ? null : s.of(p);
      if (v !== null) parts.push(svg("circle", { class: s.color, cx: place, cy: y(v), r: 3.5 }));
    }
    if (pointer.chart === chart) {
      const time = p === null ? view.end_s - view.span_s * (1 - pointer.share) : p.time_s;
      const rows = chart.series.map((s) => {
        const v = p === null ? null : s.of(p);
        return element("li", {}, element("i", { class: s.color }), `${s.name} `, element("b", {}, v === null ? "no sample" : chart.show(v)));
      });
      chart.tip.replaceChildren(element("time", {}, clock(time, true)), element("ul", {}, ...rows));
      const onLeft = place > width / 2;
      chart.tip.style.left = onLeft ? "auto" : `${place + 12}px`;
      chart.tip.style.right = onLeft ? `${width - place + 12}px` : "auto";
    }
    return parts;
  }

  function draw(chart) {
    const begin = view.end_s - view.span_s;
    const points = view.points.filter((p) => p.time_s >= begin);
    const scale = scales(chart, points);
    chart.svg.setAttribute("viewBox", `0 0 ${scale.width} ${scale.height}`);
    chart.svg.replaceChildren(...drawAxes(scale, chart),
      ...chart.series.flatMap((s) => drawSeries(s, points, scale, !chart.log && chart.series.length === 1)),
      ...drawPointer(chart, points, scale));
    // The legend shows the values under the pointer in every chart, else the newest.
    const told = pointer === null ? points.at(-1) : pointed(points);
    chart.legend.replaceChildren(...chart.series.map((s) => {
      const v = told ? s.of(told) : null;
      return element("li", {}, element("i", { class: s.color }), `${s.name} `, element("b", {}, v === null ? "–" : chart.show(v)));
    }));
  }

  const drawAll = () => all.forEach(draw);

  function point(chart, share) {
    pointer = share === null ? null : { chart, share: Math.min(1, Math.max(0, share)) };
    drawAll();
  }

  function follow(chart) {
    const at = (event) => {
      const box = chart.svg.getBoundingClientRect();
      point(chart, (event.clientX - box.left - left) / (box.width - left - right));
    };
    chart.svg.addEventListener("pointermove", at);
    chart.svg.addEventListener("pointerdown", at);
    chart.svg.addEventListener("pointerleave", (event) => event.pointerType === "mouse" && point(null, null));
    chart.svg.addEventListener("blur", () => point(null, null));
    chart.svg.addEventListener("keydown", (event) => {
      const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (event.key === "Escape") point(null, null);
      if (step === undefined) return;
      event.preventDefault();
      point(chart, (pointer?.share ?? 1) + (step * view.interval_s) / view.span_s);
    });
  }

  return {
    // series: [{name, color, of: point -> number or null}]; show: a value as text; tick: a round value as text.
    add(id, series, show, { tick = show, log = false, top = null } = {}) {
      const chart = { series, show, tick, log, top, svg: $(id), legend: document.querySelector(`.legend[data-for="${id}"]`), tip: element("div", { class: "tip", hidden: "" }) };
      chart.svg.after(chart.tip);
      follow(chart);
      all.push(chart);
    },
    // points: each covers interval_s seconds; the last span_s seconds up to end_s are shown.
    show(next) {
      view = next;
      drawAll();
    },
    redraw: drawAll,
  };
})();
