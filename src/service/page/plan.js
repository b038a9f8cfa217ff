// SPDX-License-Identifier: Apache-2.0
// A queue of jobs, a table as people write it, and the plan of it on the devices of the form: a Gantt chart.

/** A line for each device; runs: items of the document of v1/plan. */
function ganttChart(plan) {
  const width = across(760), left = 150, right = 16, line = 34, top = 8, height = top + plan.devices.length * line + 26;
  const budgetOf = (name) => (typeof plan.budget_sec === "object" ? plan.budget_sec[name] : plan.budget_sec);
  const last = Math.max(1, ...plan.devices.map(budgetOf), ...plan.items.map((run) => run.end_sec));
  const x = (sec) => left + (width - left - right) * sec / last;
  return svg("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", id: "gantt",
    "aria-label": "The plan over time: " + plan.items.map((run) => `${runName(run, plan)} on ${plan.devices[run.device_index]} from ${seconds(run.start_sec)} to ${seconds(run.end_sec)}`).join("; ") },
  timeTicks(last, width < 400 ? 3 : 6).map((mark) => [svg("line", { class: "grid", x1: x(mark.at), x2: x(mark.at), y1: top, y2: height - 22 }),
    svg("text", { class: "soft", x: x(mark.at), y: height - 6, "text-anchor": "middle" }, mark.text)]),
  plan.devices.map((name, d) => {
    const y = top + d * line, end = x(budgetOf(name));
    return [svg("text", { x: left - 10, y: y + line / 2 + 4, "text-anchor": "end" }, name.length > 21 ? name.slice(0, 20) + "…" : name),
      svg("line", { x1: end, x2: end, y1: y + 2, y2: y + line - 2, stroke: "var(--ink)", "stroke-width": 2.5 }, svg("title", {}, "end of the budget"))];
  }),
  plan.items.map((run) => {
    const from = x(run.start_sec), long = x(run.end_sec) - from, y = top + run.device_index * line + 5, name = runName(run, plan);
    // What does not fit into a short run stands behind it, if nothing else does.
    const next = plan.items.filter((other) => other.device_index === run.device_index && other.start_sec > run.start_sec).map((other) => x(other.start_sec));
    const behind = Math.floor((Math.min(width, x(budgetOf(plan.devices[run.device_index])), ...next) - x(run.end_sec) - 8) / 7);
    const letters = Math.floor((long - 8) / 7), isBehind = letters < name.length && behind > letters, room = isBehind ? behind : letters;
    return svg("g", { class: "run" }, svg("title", {}, `${name}: ${seconds(run.start_sec)} to ${seconds(run.end_sec)}`),
      svg("rect", { x: from, y, width: Math.max(1.5, long - 1), height: line - 10, rx: 3, fill: "var(--accent)" }),
      room < 3 ? null : svg("text", { class: isBehind ? null : "on-run", x: (isBehind ? x(run.end_sec) : from) + 4, y: y + line / 2 - 1 }, name.length > room ? name.slice(0, room - 1) + "…" : name));
  }));
}

/** The id of its job, or its network and what differs between the runs. */
function runName(run, plan) {
  if (run.id !== null) return run.id;
  const { network: _network, device: _device, ...differ } = run.fields;
  const first = run.key.slice(run.key.indexOf("=") + 1).split(";")[0];
  return [first, ...Object.entries(differ).map(([name, value]) => `${name.replaceAll("_", " ")} ${value}`)].join(", ") || plan.n;
}

const assumedText = (plan) => [...new Set(plan.items.flatMap((run) => Object.entries(run.assumed).map(([name, value]) => `${labels[name] ?? name.replaceAll("_", " ")} ${value}`)))].join(", ");

function planResult(plan) {
  const proof = plan.optimal ? "no plan is worth more" : `at most ${digits(plan.upper_bound, 6)} is possible`;
  const said = `${plan.n} of ${plan.candidates} runs, value ${digits(plan.value, 6)} (${proof})` +
    (plan.n > 0 ? `; the last ends after ${seconds(plan.makespan_sec)}${plan.makespan_optimal ? ", and none of this value ends sooner" : ""}` : "") +
    (plan.price === null ? "" : `; price ${money(plan.price)}`);
  const row = (run) => el("tr", {}, el("td", { class: "text" }, runName(run, plan)), el("td", { class: "text" }, plan.devices[run.device_index]),
    el("td", {}, seconds(run.start_sec)), el("td", {}, seconds(run.end_sec)), el("td", {}, digits(run.value, 4)), el("td", {}, verdictTag(run.verdict)));
  return [el("p", { id: "plan-said" }, said), plan.n > 0 ? ganttChart(plan) : null,
    plan.n > 0 ? el("div", { class: "scroll" }, el("table", { id: "plan-table" }, el("thead", {}, el("tr", {}, ["run", "device", "begins", "ends", "value", "memory"].map((head, i) => el("th", { scope: "col", class: i < 2 ? "text" : null }, head)))),
      el("tbody", {}, plan.items.map(row)))) : null,
    assumedText(plan) ? el("p", { class: "hint", id: "plan-assumed" }, "Taken, since nobody said: " + assumedText(plan)) : null,
    plan.left_out.length > 0 ? el("p", { class: "hint" }, "Left out: " + plan.left_out.map((one) => `${one.key}${one.device ? " on " + one.device : ""}: ${one.reason}`).join("; ")) : null];
}

async function askPlan() {
  const result = byId("plan-result");
  const missing = job.queue.rows.trim() === "" ? "jobs: the table is empty; add the job of the form, or write one"
    : job.queue.budget.trim() === "" ? "time of each device: how long may the plan take? such as 8:00:00" : null;
  if (missing) {
    result.replaceChildren(el("p", { class: "wrong", id: "plan-wrong" }, missing));
    return;
  }
  result.setAttribute("aria-busy", "true");
  const prices = Object.fromEntries(job.devices.map((device) => [device.name, asValue(device.price.trim())]));
  const asked = { rows: job.queue.rows.trim() + "\n", devices: job.devices.map((device) => device.name), budget_sec: asValue(job.queue.budget.trim()) };
  if (job.devices.every((device) => device.price.trim() !== "")) asked.prices = prices;
  try {
    const response = await postTo("v1/plan", asked);
    const said = await response.json();
    if (!response.ok) throw new Error(said.error);
    result.replaceChildren(...planResult(said).filter(Boolean));
  } catch (error) {
    result.replaceChildren(el("p", { class: "wrong", id: "plan-wrong" }, error.message));
  }
  result.removeAttribute("aria-busy");
}

const cell = (text) => (/[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);

/** The job of the form as a row of the table, where its fields have columns. */
function rowOfJob() {
  const { budget_sec: _budget, startup_sec: _startup, ...own } = request(null);
  const lines = job.queue.rows.split("\n").filter((one) => one.trim() !== "");
  const heads = lines.length > 0 ? lines[0].split(",").map((head) => head.trim()) : [...Object.keys(own).filter((name) => typeof own[name] !== "object" && name !== "config" && name !== "step"), ...("epochs" in own ? [] : ["epochs"]), "value"];
  const usual = { epochs: 1, value: 1, count: 1 };
  return [lines.length > 0 ? lines : [heads.join(",")], heads.map((head) => cell(String(own[head] ?? usual[head] ?? ""))).join(",")].flat().join("\n") + "\n";
}

function buildPlan() {
  const keep = () => {
    job.queue = { rows: byId("queue-rows").value, budget: byId("queue-budget").value };
    history.replaceState(null, "", link());
  };
  const rows = el("textarea", { id: "queue-rows", rows: 6, spellcheck: "false", placeholder: "id,network,batch_size,epochs,value,deadline_sec\nnight 1,resnet50,256,3,1,\nnight 2,resnet18,256,5,2,3600", oninput: keep });
  const budget = el("input", { id: "queue-budget", placeholder: "such as 8:00:00", oninput: keep });
  byId("plan").replaceChildren(el("details", { class: "card", id: "plan-card" }, el("summary", {}, "Plan a queue of jobs on these devices"),
    el("div", {}, el("div", { class: "field" }, el("label", { for: "queue-rows" }, "jobs: a table with network, batch_size, epochs and value; also id, count, earliest_sec, deadline_sec, fields of a job"), rows),
      el("div", { class: "row" }, el("button", { type: "button", id: "queue-add", onclick: () => {
        rows.value = rowOfJob();
        keep();
      } }, "add the job of the form"), el("label", { for: "queue-budget" }, "time of each device"), budget,
      el("button", { type: "button", id: "queue-plan", onclick: () => {
        keep();
        askPlan();
      } }, "plan")),
      el("div", { id: "plan-result", "aria-live": "polite" }))));
  showPlan();
}

function showPlan() {
  byId("queue-rows").value = job.queue.rows;
  byId("queue-budget").value = job.queue.budget;
  if (job.queue.rows.trim() === "") return;
  byId("plan-card").open = true;
  if (job.queue.budget.trim() !== "") askPlan();
}
