// SPDX-License-Identifier: Apache-2.0
// The predicted step over time, from the trace of v1/trace: a line for what computes, for its host, and for each kind of
// collective; of a pipeline for each stage.

const passColours = { forward: "--activations", loss: "--accent", backward: "--gradients", update: "--optimizer" };
const laneColours = { host: "--loader", "links tensors": "--workspace", "links parameters": "--parameters", "links gradients": "--context" };

const colourOf = (lane, name) => `var(${laneColours[lane] ?? passColours[name.split(/[ ,]/)[0]] ?? "--accent"})`;

/** [{stage, name, passes, kernels}] in the order of the trace; times in seconds from 0. A pass holds the kernels in it. */
function lanesOf(trace) {
  const names = new Map(), lanes = new Map();
  for (const one of trace.traceEvents) if (one.ph === "M") names.set(one.name === "thread_name" ? `${one.pid}/${one.tid}` : `${one.pid}`, one.args.name);
  for (const one of trace.traceEvents) {
    if (one.ph !== "X") continue;
    const id = `${one.pid}/${one.tid}`;
    if (!lanes.has(id)) lanes.set(id, { order: [one.pid, one.tid], stage: names.get(`${one.pid}`), name: names.get(id), passes: [], kernels: [] });
    const lane = lanes.get(id), event = { name: one.name, layer: one.args?.layer, begin: one.ts / 1e6, sec: one.dur / 1e6 };
    (lane.name === "host" || one.args ? lane.kernels : lane.passes).push(event);
  }
  return [...lanes.values()].sort((a, b) => a.order[0] - b.order[0] || a.order[1] - b.order[1]);
}

/** Neighbours that are too narrow to be seen by themselves are one. */
function drawable(events, narrowest) {
  const drawn = [];
  for (const event of events) {
    const last = drawn.at(-1);
    if (last && event.begin - (last.begin + last.sec) < narrowest && (event.sec < narrowest || last.sec < narrowest)) {
      last.sec = event.begin + event.sec - last.begin;
      last.events += 1;
    } else drawn.push({ ...event, events: 1 });
  }
  return drawn;
}

function timelineChart(trace) {
  const lanes = lanesOf(trace), several = new Set(lanes.map((lane) => lane.stage)).size > 1;
  const width = across(760), left = width < 500 ? 96 : 140, right = 12, line = lanes.length > 16 ? 20 : 34, top = 4;
  const height = top + lanes.length * line + 26, end = trace.otherData.step_sec.p50;
  const x = (sec) => left + (width - left - right) * sec / end, narrowest = 0.75 * end / (width - left - right);
  const laneName = (lane) => (several ? `${lane.stage}, ${lane.name}` : lane.name);
  const block = (lane, y, thick, of) => (event) => {
    const long = x(event.begin + event.sec) - x(event.begin);
    return svg("rect", { x: x(event.begin), y, width: Math.max(0.6, long - (long > 3 ? 0.7 : 0)), height: thick, fill: colourOf(lane, of ?? event.name) },
      svg("title", {}, `${event.events > 1 ? `${event.name} and ${event.events - 1} more` : event.name}${event.layer ? ` of ${event.layer}` : ""}: ${seconds(event.sec)} from ${seconds(event.begin)}`));
  };
  const drawn = lanes.map((lane, i) => {
    const y = top + i * line + 3, thick = line - 8, hasBoth = lane.passes.length > 0 && lane.kernels.length > 0;
    const passes = drawable(lane.passes, narrowest).map(block(lane.name, y, hasBoth ? 5 : thick));
    const kernels = hasBoth ? lane.passes.flatMap((pass) => drawable(lane.kernels.filter((one) => one.begin >= pass.begin - 1e-12 && one.begin < pass.begin + pass.sec), narrowest).map(block(lane.name, y + 6, thick - 6, pass.name)))
      : drawable(lane.kernels, narrowest).map(block(lane.name, y, thick));
    return [svg("text", { x: left - 8, y: y + thick / 2 + 4, "text-anchor": "end" }, laneName(lane)), svg("g", { class: "lane", "data-lane": laneName(lane) }, passes, kernels)];
  });
  return svg("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", id: "timeline-picture",
    "aria-label": `A step over ${seconds(end)}: ` + lanes.map((lane) => `${laneName(lane)} works ${percent(busy(lane) / end)} of it`).join(", ") },
  timeTicks(end, width < 400 ? 3 : 6).map((mark) => [svg("line", { class: "grid", x1: x(mark.at), x2: x(mark.at), y1: top, y2: height - 22 }),
    svg("text", { class: "soft", x: x(mark.at), y: height - 6, "text-anchor": "middle" }, mark.text)]), drawn);
}

/** Seconds in which a lane works; what lies in a pass counts by its kernels, where they are drawn. */
const busy = (lane) => (lane.kernels.length > 0 ? lane.kernels : lane.passes).reduce((sum, one) => sum + one.sec, 0);

/** Passes of a lane by name, without the micro-batches' numbers: what each takes together. */
function lanesTable(trace) {
  const rows = lanesOf(trace).flatMap((lane) => {
    const sums = new Map();
    for (const one of lane.passes.length > 0 ? lane.passes : [{ name: "all", begin: lane.kernels[0].begin, sec: busy(lane) }]) {
      const name = one.name.replace(/ \d+.*$/, ""), sum = sums.get(name) ?? { times: 0, sec: 0 };
      sums.set(name, { times: sum.times + 1, sec: sum.sec + one.sec });
    }
    return [...sums].map(([name, sum]) => [lane.stage, lane.name, name, sum]);
  });
  return el("table", {}, el("thead", {}, el("tr", {}, ["", "line", "what", "times", "takes"].map((head, i) => el("th", { scope: "col", class: i < 3 ? "text" : null }, head)))),
    el("tbody", {}, rows.map(([stage, lane, name, sum]) => el("tr", {}, [stage, lane, name].map((text) => el("td", { class: "text" }, text)),
      el("td", {}, String(sum.times)), el("td", {}, seconds(sum.sec))))));
}

const timelineLegend = (trace) => {
  const passes = new Set(lanesOf(trace).flatMap((lane) => lane.passes.map((one) => one.name.split(/[ ,]/)[0])).filter((name) => passColours[name]));
  return el("ul", { class: "legend" }, [...passes].map((name) => el("li", {}, el("i", { style: `background:var(${passColours[name]})` }), name)));
};

/** Hands a text to the reader as a file. */
function save(name, text) {
  const to = el("a", { href: URL.createObjectURL(new Blob([text], { type: "application/json" })), download: name });
  to.click();
  URL.revokeObjectURL(to.href);
}

/** @param trace  the answer of v1/trace, {error} or null while there is none */
function timelineCard(trace) {
  if (trace === null) return null;
  const name = "A step over time";
  if (trace.error !== undefined) return card(name, { class: "wide", id: "timeline" }, el("p", { class: "hint" }, "It cannot be drawn: " + trace.error));
  const notes = trace.otherData.simplified;
  return card(name, { class: "wide", id: "timeline" }, timelineChart(trace), timelineLegend(trace),
    notes.length > 0 ? el("p", { class: "hint" }, "Simplified: " + notes.join("; ") + ".") : null,
    el("details", {}, el("summary", {}, "the numbers"), el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "A step over time" }, lanesTable(trace))),
    el("p", { class: "row" }, el("button", { type: "button", id: "save-trace", onclick: () => save("step.trace.json", JSON.stringify(trace)) }, "save it for Perfetto"),
      el("span", { class: "hint" }, "The median step. Point at a block for its name.")));
}
