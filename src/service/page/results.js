// SPDX-License-Identifier: Apache-2.0
// What the service answered, as people look at it.

const restsOn = {
  runs: "runs of this very kind", probe: "measurements of this device", family: "devices with the same kind of kernels",
  other_family: "other kinds of devices", bytes: "the bytes that it moves alone",
};
const limitedBy = { compute: "arithmetic", memory: "memory bandwidth", launch: "its host", data: "loading of data" };
const isGood = (answer) => answer && answer.error === undefined;
const knowsTotal = (answer) => answer.total_sec !== null;

const verdictTag = (verdict) => (verdict
  ? el("span", { class: "tag " + { fits: "good", only_just: "fair", does_not_fit: "bad" }[verdict] }, verdictText[verdict])
  : el("span", { class: "tag" }, "memory not known"));

function fact(name, quantiles, text) {
  return el("div", {}, el("p", { class: "hint" }, name), el("p", { class: "big" }, text(quantiles.p50)), intervalBar(quantiles),
    el("p", { class: "hint" }, "90 %: " + between(quantiles, text)));
}

const times = (quantiles, factor) => ({ p05: quantiles.p05 * factor, p50: quantiles.p50 * factor, p95: quantiles.p95 * factor });

/** Of a million tokens, where somebody said what the device costs. */
function priceOfTokens(answer, device) {
  const perHour = Number(device.price);
  if (device.price.trim() === "" || !(perHour >= 0) || !answer.tokens_per_sec) return null;
  const of = (rate) => perHour * (answer.scaling?.devices ?? 1) / 3600 / rate * 1e6;
  return { p05: of(answer.tokens_per_sec.p95), p50: of(answer.tokens_per_sec.p50), p95: of(answer.tokens_per_sec.p05) };
}

function chosenCard(answer, device) {
  const tokens = priceOfTokens(answer, device);
  const facts = [
    knowsTotal(answer) ? fact("the job", answer.total_sec, seconds) : null,
    answer.time_sec && answer.total_sec.p50 !== answer.time_sec.p50 ? fact("an epoch", answer.time_sec, seconds) : null,
    fact("a step", answer.step_sec, seconds),
    answer.tokens_per_sec ? fact("tokens a second", answer.tokens_per_sec, count) : fact("samples a second", answer.images_per_sec, count),
    answer.evaluation_sec ? fact("an evaluation", answer.evaluation_sec, seconds) : null,
    answer.price ? fact("price", answer.price, money) : null,
    !answer.price && tokens ? fact("price of 10⁶ tokens", tokens, money) : null,
    answer.epochs_in_budget ? fact("epochs in the budget", answer.epochs_in_budget, digits) : null,
    ...(answer.quantiles ?? []).map((one) => el("div", {}, el("p", { class: "hint" }, `${percent(one.q)} of jobs are done in`),
      el("p", { class: "big" }, seconds(one.total_sec ?? one.step_sec)), el("p", { class: "hint" }, one.total_sec === null ? "a step" : "the job"))),
  ];
  const scaling = answer.scaling
    ? el("p", {}, `${answer.scaling.devices} devices, ${percent(answer.scaling.efficiency)} of perfect scaling; the rest is lost to ` +
      (Object.entries(answer.scaling.limits).filter(([, share]) => share > 0.005).sort((a, b) => b[1] - a[1])
        .map(([name, share]) => `${name} ${percent(share)}`).join(", ") || "nothing")) : null;
  const reason = answer.in_domain ? "" : `; outside what was measured (${answer.reason.replaceAll("_", " ")})`;
  return card(device.name, { class: "wide", id: "chosen" },
    el("p", { class: "row" }, verdictTag(answer.verdict), answer.bound ? el("span", { class: "tag" }, `limited by ${limitedBy[answer.bound] ?? answer.bound}`) : null,
      answer.largest_batch ? el("span", { class: "hint" }, `largest batch that fits: ${answer.largest_batch}`) : null),
    el("div", { class: "facts" }, facts), scaling,
    el("p", { class: "hint" }, `Rests on ${restsOn[answer.provenance] ?? answer.provenance}${reason}.`));
}

const memoryCard = (answer, device) => answer.memory && card("Memory on " + device.name, { class: "wide", id: "memory" },
  memoryBar(answer), memoryLegend(answer.memory.parts));

const ease = (advice) => ["fits", "only_just", "does_not_fit"].indexOf(advice.verdict);

/** Changes of the job as buttons. */
function adviceCard(answer, apply) {
  if (answer.verdict === "fits" || answer.fit_advice.length === 0) return null;
  const isEnough = answer.scaling || answer.fit_advice.some((one) => one.verdict !== "does_not_fit");
  const shared = "gpus_per_node=8;parallel=fsdp";
  return card("What would make it fit, or take less", { class: "wide", id: "advice" },
    isEnough ? null : el("p", { class: "row" }, "None of these is enough on one device. ",
      el("button", { type: "button", id: "try-several", onclick: () => apply(shared) }, "try 8 devices that share all of it")),
    el("div", { class: "scroll" }, el("table", {}, el("thead", {}, el("tr", {}, ["change", "memory", "time", "", ""].map((head) => el("th", { scope: "col" }, head)))),
      el("tbody", {}, [...answer.fit_advice].sort((a, b) => ease(a) - ease(b)).map((one) => el("tr", {}, el("td", {}, one.change.split(";").map((part) => part.replace("=", " = ").replaceAll("_", " ")).join(", ")),
        el("td", {}, bytes(one.memory_bytes)), el("td", {}, `×\u00a0${digits(one.time_factor)}`), el("td", {}, verdictTag(one.verdict)),
        el("td", {}, el("button", { type: "button", "aria-label": "try " + one.change, onclick: () => apply(one.change) }, "try it"))))))));
}

/** By place, what a device is best at among those that fit. */
function titles(answers) {
  const fitting = answers.map((answer, place) => ({ answer, place })).filter(({ answer }) => isGood(answer) && answer.verdict !== "does_not_fit");
  const all = answers.map(() => []);
  const give = (title, of) => {
    const rated = fitting.map((one) => ({ ...one, rate: of(one.answer) })).filter((one) => one.rate !== null && one.rate !== undefined);
    if (rated.length > 1) all[rated.reduce((best, one) => (one.rate < best.rate ? one : best)).place].push(title);
  };
  give("fastest", (answer) => 1 / answer.images_per_sec.p50);
  give("cheapest", (answer) => answer.cost?.p50);
  give("smallest that fits", (answer) => (answer.verdict === "fits" ? answer.memory?.usable : null));
  return all;
}

function devicesCard(answers, choose) {
  const best = titles(answers);
  const priced = answers.some((answer) => isGood(answer) && answer.cost);
  const good = answers.filter(isGood);
  const known = good.some(knowsTotal);
  const heads = ["", "device", known ? "the job" : "a step", good.some((one) => one.tokens_per_sec) ? "tokens/s" : "samples/s",
    ...(priced ? [known ? "price" : "price of 10⁶ tokens"] : []), "memory", "rests on"];
  const value = (quantiles, text) => (quantiles ? el("td", {}, text(quantiles.p50), el("small", {}, between(quantiles, text))) : el("td", {}, "–"));
  const row = (answer, place) => {
    const device = job.devices[place];
    const pick = el("td", {}, el("input", { type: "radio", name: "chosen", "aria-label": "show " + device.name, checked: place === job.chosen, onchange: () => choose(place) }));
    if (!isGood(answer)) return el("tr", {}, pick, el("td", { class: "text" }, device.name), el("td", { class: "text wrong", colspan: heads.length - 2 }, answer.error));
    return el("tr", { class: place === job.chosen ? "chosen" : null }, pick,
      el("td", { class: "text" }, device.name, " ", best[place].map((title) => [el("span", { class: "tag good" }, title), " "])),
      value(known ? answer.total_sec : answer.step_sec, seconds), value(answer.tokens_per_sec ?? answer.images_per_sec, count),
      priced ? value(answer.cost, money) : null,
      el("td", {}, answer.memory ? [memoryBar(answer, true), el("small", {}, `${bytes(answer.memory.device.p50)}, below ${bytes(answer.memory.device.upper)} of ${answer.memory.usable ? bytes(answer.memory.usable) : "?"}`)] : "–"),
      el("td", { title: restsOn[answer.provenance] }, verdictTag(answer.verdict), el("small", {}, answer.provenance.replaceAll("_", " "))));
  };
  return card("Devices", { class: "wide", id: "devices-table" }, el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Devices" },
    el("table", {}, el("thead", {}, el("tr", {}, heads.map((head, i) => el("th", { scope: "col", class: i === 1 ? "text" : null }, head)))), el("tbody", {}, answers.map(row)))));
}

function deviceCharts(answers) {
  const rows = (of) => answers.map((answer, place) => (isGood(answer) && of(answer)
    ? { name: job.devices[place].name, quantiles: of(answer), verdict: answer.verdict } : null)).filter(Boolean);
  const known = answers.some((answer) => isGood(answer) && knowsTotal(answer));
  const time = rows((answer) => (known ? answer.total_sec : answer.tokens_per_sec ?? answer.images_per_sec));
  const cost = rows((answer) => answer.cost);
  if (time.length < 2) return [];
  const note = el("p", { class: "hint" }, "Point: median. Bar: 90 % interval. Hollow: does not fit.");
  const name = known ? "Time of the job" : answers.some((one) => one.tokens_per_sec) ? "Tokens a second" : "Samples a second";
  return [card(name, { id: "chart-time" }, rangeChart(name, time, known ? seconds : count), note),
    cost.length > 1 ? card(known ? "Price" : "Price of 10⁶ tokens", { id: "chart-price" }, rangeChart("Price", cost, money)) : null];
}

const breakdownCard = (answer) => answer.breakdown && card("Where the time goes", { id: "breakdown" }, breakdownChart(answer.breakdown));

/** What the answer rests on that nobody said, what it lacks, and what would narrow it. */
function conditionsCard(answer, say) {
  const assumed = Object.entries(answer.assumed).map(([name, value]) => el("li", {}, `${labels[name] ?? name.replaceAll("_", " ")}: ${value}`));
  const leftOut = [...answer.left_out, ...(answer.notes ?? [])].map((line) => el("li", {}, line));
  const narrow = answer.narrow_by.map((name, i) => el("li", {}, `${name}: then p95 / p05 is ${digits(answer.narrow_to[i])} `,
    el("button", { type: "button", onclick: () => say(name) }, "say " + name)));
  const list = (title, items) => (items.length ? [el("p", { class: "hint" }, title), el("ul", { class: "plain" }, items)] : null);
  return card("What it rests on", { id: "conditions" }, el("p", { class: "hint" }, `p95 / p05 is ${digits(answer.step_sec.p95 / answer.step_sec.p05)}`),
    list("Taken, since nobody said", assumed), list("Not in this answer", leftOut), list("Narrower if you say", narrow));
}

function batchCards(answers, use) {
  const points = answers.filter(({ answer }) => isGood(answer));
  if (points.length < 2) return [];
  const chosen = Number(job.fields.batch_size);
  const rate = (answer) => answer.tokens_per_sec ?? answer.images_per_sec;
  const rates = points.map(({ batch, answer }) => ({ batch, ...rate(answer), verdict: answer.verdict }));
  const memories = points.filter(({ answer }) => answer.memory).map(({ batch, answer }) =>
    ({ batch, p05: answer.memory.device.p50, p50: answer.memory.device.p50, p95: answer.memory.device.upper, verdict: answer.verdict }));
  const name = points[0].answer.tokens_per_sec ? "Tokens a second by batch size" : "Samples a second by batch size";
  const table = el("details", {}, el("summary", {}, "the numbers"), el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Batch sizes" },
    el("table", {}, el("thead", {}, el("tr", {}, ["batch", "a step", "rate", "memory", "", ""].map((head) => el("th", { scope: "col" }, head)))),
      el("tbody", {}, points.map(({ batch, answer }) => el("tr", { class: batch === chosen ? "chosen" : null }, el("td", {}, String(batch)), el("td", {}, seconds(answer.step_sec.p50)),
        el("td", {}, count(rate(answer).p50)), el("td", {}, answer.memory ? bytes(answer.memory.device.p50) : "–"), el("td", {}, verdictTag(answer.verdict)),
        el("td", {}, el("button", { type: "button", "aria-label": "batch size " + batch, onclick: () => use(batch) }, "use"))))))));
  return [card(name, { id: "chart-batch" }, batchChart("Rate", rates, count, null, chosen), table),
    memories.length > 1 ? card("Memory by batch size", { id: "chart-memory" }, batchChart("Memory", memories, bytes, memories.length ? points[0].answer.memory?.usable : null, chosen),
      el("p", { class: "hint" }, "Line: expected. Band: up to what 95 of 100 jobs stay below.")) : null];
}

function requestCard(asked) {
  const block = (title, id, text) => {
    const button = el("button", { type: "button", id: "copy-" + id }, "copy");
    button.addEventListener("click", () => copy(text, button));
    return [el("div", { class: "row" }, el("span", { class: "hint" }, title), button), el("pre", { id, tabindex: "0" }, text)];
  };
  const shown = Object.fromEntries(Object.entries(asked).map(([name, value]) =>
    [name, (name === "step" || name === "config") && value.length > 400 ? value.slice(0, 60) + `… (${value.length} bytes)` : value]));
  const copied = JSON.stringify(asked);
  const button = el("button", { type: "button", id: "copy-json" }, "copy");
  button.addEventListener("click", () => copy(copied, button));
  return card("The same question elsewhere", { class: "wide", id: "request" },
    el("div", { class: "row" }, el("span", { class: "hint" }, "JSON, as this page sends it (POST v1/predict, perfpred predict --jsonl)"), button),
    el("pre", { id: "json", tabindex: "0" }, JSON.stringify(shown)), block("Command", "command", commandLine(asked)), block("Python", "python", pythonLine(asked)));
}
