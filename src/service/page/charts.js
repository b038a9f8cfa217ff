// SPDX-License-Identifier: Apache-2.0
// Pictures. Each says in words what it shows; the numbers stand in a table beside it.

const verdictColour = { fits: "var(--accent)", only_just: "var(--fair)", does_not_fit: "var(--bad)" };
const verdictText = { fits: "fits", only_just: "may or may not fit", does_not_fit: "does not fit" };
const memoryKinds = ["parameters", "gradients", "optimizer", "activations", "loader", "workspace", "context"];

/** Units across, of which a letter is as wide as on the page: a phone's picture has fewer of them. */
const across = (wide = 520) => (innerWidth < 740 ? Math.max(280, innerWidth - 60) : wide);

/** The bar of one interval, from 0: the median as a point. */
function intervalBar(quantiles) {
  const width = 220, height = 14, x = (value) => 4 + (width - 8) * value / quantiles.p95;
  return svg("svg", { viewBox: `0 0 ${width} ${height}`, style: "max-width:14rem", "aria-hidden": "true" },
    svg("line", { class: "grid", x1: 0, x2: width, y1: 7, y2: 7 }),
    svg("line", { x1: x(quantiles.p05), x2: x(quantiles.p95), y1: 7, y2: 7, stroke: "var(--accent)", "stroke-width": 5, opacity: 0.45 }),
    svg("circle", { cx: x(quantiles.p50), cy: 7, r: 4.5, fill: "var(--accent)" }));
}

/** Intervals of several devices, a line each. rows: [{name, quantiles, verdict}] */
function rangeChart(title, rows, text) {
  const width = across(), left = 150, right = 16, line = 26, top = 6;
  const height = top + rows.length * line + 26;
  const largest = Math.max(...rows.map((row) => row.quantiles.p95));
  const x = (value) => left + (width - left - right) * value / largest;
  const marks = text === seconds ? timeTicks(largest, width < 400 ? 2 : 4) : ticks(largest, width < 400 ? 2 : 4).map((at) => ({ at, text: at === 0 ? "0" : text(at) }));
  return svg("svg", { viewBox: `0 0 ${width} ${height}`, role: "img",
    "aria-label": `${title}: ` + rows.map((row) => `${row.name} ${text(row.quantiles.p50)}`).join(", ") },
  marks.map((mark) => [svg("line", { class: "grid", x1: x(mark.at), x2: x(mark.at), y1: top, y2: height - 22 }),
    svg("text", { class: "soft", x: x(mark.at), y: height - 6, "text-anchor": "middle" }, mark.text)]),
  rows.map((row, i) => {
    const y = top + line * (i + 0.5), colour = verdictColour[row.verdict] ?? "var(--soft)";
    return [svg("text", { x: left - 10, y: y + 4, "text-anchor": "end" }, row.name.length > 21 ? row.name.slice(0, 20) + "…" : row.name),
      svg("line", { x1: x(row.quantiles.p05), x2: x(row.quantiles.p95), y1: y, y2: y, stroke: colour, "stroke-width": 6, opacity: 0.45 }),
      svg("circle", { cx: x(row.quantiles.p50), cy: y, r: 5, stroke: colour, "stroke-width": 2,
        fill: row.verdict === "does_not_fit" ? "var(--card)" : colour })];
  }));
}

/** Memory by kind, against what the card has, with the bound that holds in 95 of 100 jobs. */
function memoryBar(answer, mini = false) {
  const { parts, device, usable } = answer.memory;
  const width = mini ? 160 : across(760), height = mini ? 20 : 74, top = mini ? 4 : 22, thick = mini ? 10 : 26;
  const largest = Math.max(device.upper, usable ?? 0);
  const x = (value) => width * value / largest * 0.995;
  let from = 0;
  const blocks = memoryKinds.filter((kind) => parts[kind] > 0).map((kind) => {
    const block = svg("rect", { x: x(from), y: top, width: Math.max(0.5, x(parts[kind]) - (mini ? 0 : 1)), height: thick, fill: `var(--${kind})` },
      svg("title", {}, `${kind} ${bytes(parts[kind])}`));
    from += parts[kind];
    return block;
  });
  const upper = x(device.upper), y = top + thick / 2;
  const limit = usable ? [svg("line", { x1: x(usable), x2: x(usable), y1: top - (mini ? 3 : 6), y2: top + thick + (mini ? 3 : 6), stroke: "var(--ink)", "stroke-width": 2.5 })] : [];
  const bound = [svg("line", { x1: x(from), x2: upper, y1: y, y2: y, stroke: "var(--edge)", "stroke-width": 2, "stroke-dasharray": "4 3" }),
    svg("line", { x1: upper, x2: upper, y1: top + 4, y2: top + thick - 4, stroke: "var(--edge)", "stroke-width": 3 })];
  const anchor = (at) => (at < width * 0.2 ? "start" : at > width * 0.8 ? "end" : "middle");
  const words = mini ? [] : [
    usable ? svg("text", { x: x(usable), y: 12, "text-anchor": anchor(x(usable)) }, `the card has ${bytes(usable)}`) : null,
    svg("text", { class: "soft", x: 0, y: height - 6 }, `95 of 100 jobs stay below ${bytes(device.upper)}`)];
  return svg("svg", { viewBox: `0 0 ${width} ${height}`, role: mini ? null : "img", "aria-hidden": mini ? "true" : null,
    style: mini ? "max-width:10rem" : null,
    "aria-label": mini ? null : `Memory: ${memoryKinds.filter((kind) => parts[kind] > 0).map((kind) => `${kind} ${bytes(parts[kind])}`).join(", ")}; ` +
      `95 of 100 jobs stay below ${bytes(device.upper)}${usable ? ` of ${bytes(usable)}` : ""}` }, blocks, bound, limit, words);
}

const memoryLegend = (parts) => el("ul", { class: "legend" }, memoryKinds.filter((kind) => parts[kind] > 0).map((kind) =>
  el("li", {}, el("i", { style: `background:var(--${kind})` }), `${kind} ${bytes(parts[kind])}`)));

/** What takes the time, the longest first. */
function breakdownChart(given) {
  const rest = (term) => term.op === "other operators";
  const terms = [...given].sort((a, b) => rest(a) - rest(b) || b.share - a.share);
  const width = across(), left = 170, line = 22, height = terms.length * line + 4;
  const largest = Math.max(...terms.map((term) => term.share));
  return svg("svg", { viewBox: `0 0 ${width} ${height}`, role: "img",
    "aria-label": "Where the time goes: " + terms.map((term) => `${term.op} ${percent(term.share)}`).join(", ") },
  terms.map((term, i) => {
    const y = i * line + 2, long = (width - left - 60) * Math.max(0, term.share) / largest;
    return [svg("text", { x: left - 8, y: y + 14, "text-anchor": "end" }, term.op.length > 25 ? term.op.slice(0, 24) + "…" : term.op),
      svg("rect", { x: left, y: y + 3, width: Math.max(1, long), height: line - 8, rx: 2, fill: "var(--accent)" }),
      svg("text", { class: "soft", x: left + long + 6, y: y + 14 }, percent(term.share))];
  }));
}

/** A quantity over batch sizes, both on scales of powers; a band for its interval. points: [{batch, p05, p50, p95, verdict}] */
function batchChart(title, points, text, limit = null, chosen = null) {
  const width = across(), height = 220, left = 64, right = 14, top = limit ? 28 : 12, bottom = 42;
  const largest = Math.max(...points.map((point) => point.p95), limit ?? 0);
  const first = Math.log2(points[0].batch), last = Math.log2(points.at(-1).batch);
  const x = (batch) => left + (width - left - right) * (last === first ? 0.5 : (Math.log2(batch) - first) / (last - first));
  const y = (value) => height - bottom - (height - top - bottom) * value / largest;
  const path = (values) => values.map(([batch, value], i) => `${i ? "L" : "M"}${x(batch).toFixed(1)} ${y(value).toFixed(1)}`).join("");
  const band = path([...points.map((p) => [p.batch, p.p95]), ...points.toReversed().map((p) => [p.batch, p.p05])]) + "Z";
  const every = Math.ceil(points.length / (width < 500 ? 5 : 9)), chosenPlace = points.findIndex((point) => point.batch === chosen);
  const isNamed = (i) => i === chosenPlace || (i % every === 0 && (chosenPlace < 0 || Math.abs(i - chosenPlace) >= every));
  return svg("svg", { viewBox: `0 0 ${width} ${height}`, role: "img",
    "aria-label": `${title} by batch size: ` + points.map((point) => `${point.batch}: ${text(point.p50)}`).join(", ") },
  ticks(largest, 4).map((mark) => [svg("line", { class: "grid", x1: left, x2: width - right, y1: y(mark), y2: y(mark) }),
    svg("text", { class: "soft", x: left - 6, y: y(mark) + 4, "text-anchor": "end" }, text(mark))]),
  points.map((point, i) => (!isNamed(i) ? null
    : svg("text", { class: "soft", x: x(point.batch), y: height - 25, "text-anchor": "middle", "font-weight": point.batch === chosen ? "700" : null }, point.batch))),
  svg("text", { class: "soft", x: width - right, y: height - 6, "text-anchor": "end" }, "batch size"),
  svg("path", { d: band, fill: "var(--band)" }),
  svg("path", { d: path(points.map((p) => [p.batch, p.p50])), fill: "none", stroke: "var(--accent)", "stroke-width": 2 }),
  points.map((point) => svg("circle", { cx: x(point.batch), cy: y(point.p50), r: point.batch === chosen ? 6 : 4, stroke: verdictColour[point.verdict] ?? "var(--accent)",
    "stroke-width": 2, fill: point.verdict === "does_not_fit" ? "var(--card)" : verdictColour[point.verdict] ?? "var(--accent)" },
  svg("title", {}, `batch ${point.batch}: ${text(point.p50)}`))),
  limit ? [svg("line", { x1: left, x2: width - right, y1: y(limit), y2: y(limit), stroke: "var(--ink)", "stroke-width": 2 }),
    svg("line", { x1: left, x2: left + 24, y1: 10, y2: 10, stroke: "var(--ink)", "stroke-width": 2 }),
    svg("text", { x: left + 30, y: 14 }, `the card has ${text(limit)}`)] : []);
}
