// SPDX-License-Identifier: Apache-2.0
// Asks the service as soon as something changes, and shows the last answer until the next one is there.

let fields = [], networks = [], devices = [], models = [];
let isAsking = false, isChanged = false;

async function get(path) {
  const response = await fetch(path);
  if (!response.ok) throw new Error(`${path}: ${response.status}`);
  return response.json();
}

const postTo = (path, asked) => fetch(path + (job.model ? "?model=" + encodeURIComponent(job.model) : ""),
  { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(asked) });

async function post(list) {
  const response = await postTo("v1/predict", list);
  const said = await response.json();
  if (!response.ok) throw new Error(said.error);
  return said;
}

/** Batch sizes that are powers of two, up to the largest that fits, or twice the one that is asked for. */
function batchSizes(largest) {
  const asked = Number(job.fields.batch_size);
  if (!Number.isInteger(asked) || asked < 1) return [];
  const top = Math.max(1, Math.ceil(Math.log2(Math.max(2 * asked, Math.min(largest ?? 0, 64 * asked)))));
  const sizes = new Set([asked]);
  for (let power = Math.max(0, top - 10); power <= top; ++power) sizes.add(2 ** power);
  if (largest > 0 && largest <= 2 ** top) sizes.add(largest);
  return [...sizes].sort((a, b) => a - b);
}

function apply(change) {
  for (const part of change.split(";")) {
    const name = part.slice(0, part.indexOf("=")), value = part.slice(part.indexOf("=") + 1);
    if (name !== "device") {
      job.fields[name] = value;
      continue;
    }
    const known = job.devices.findIndex((one) => one.name === value);
    if (known < 0) job.devices.push({ name: value, price: "" });
    job.chosen = known < 0 ? job.devices.length - 1 : known;
  }
  showForm();
  showDevices(ask);
  ask();
}

function say(name) {
  const input = byId("field-" + name);
  const group = input?.closest("details");
  if (group) group.open = true;
  input?.focus();
}

/** Marks the field that a refusal begins with. */
function markWrong(message) {
  for (const input of byId("job").querySelectorAll("[aria-invalid]")) input.removeAttribute("aria-invalid");
  const name = message?.match(/^(?:network|device|[a-z_]+)/)?.[0];
  const input = name && (byId("field-" + name) ?? byId(name));
  if (input?.setAttribute) input.setAttribute("aria-invalid", "true");
}

function setStatus(text, isWrong = false) {
  const status = byId("status");
  if (status.textContent !== text) status.textContent = text;
  status.className = isWrong ? "wrong" : "";
}

function statusOf(answers) {
  const good = answers.filter(isGood);
  if (good.length === 0) return [answers[0].error, true];
  const judged = good.filter((one) => one.verdict);
  if (judged.length > 0 && judged.every((one) => one.verdict === "does_not_fit"))
    return [answers.length > 1 ? "It fits on none of these devices." : "It does not fit on this device.", true];
  return [`${good.length} of ${answers.length} ${answers.length === 1 ? "device" : "devices"} answered${knowsEpoch() ? "" : "; say the samples or tokens an epoch, and there is a time and price of the job"}.`, false];
}

function show(answers, batches) {
  const views = byId("views");
  const focused = document.activeElement?.closest("#views") ? document.activeElement : null;
  const place = focused && [...views.querySelectorAll("button, input, pre, [tabindex]")].indexOf(focused);
  const open = new Set([...views.querySelectorAll("details[open]")].map((one) => one.closest("section").id));
  answers.forEach((answer, i) => { if (isGood(answer)) answer.cost = answer.price ?? (knowsEpoch() ? null : priceOfTokens(answer, job.devices[i])); });
  const chosen = answers[job.chosen], device = job.devices[job.chosen];
  const details = isGood(chosen)
    ? [chosenCard(chosen, device), memoryCard(chosen, device), adviceCard(chosen, apply)]
    : [card(device.name, { class: "wide", id: "chosen" }, el("p", { class: "wrong" }, chosen.error))];
  const table = devicesCard(answers, (to) => {
    job.chosen = to;
    ask();
  });
  views.replaceChildren(...[...details, table, ...deviceCharts(answers),
    ...batchCards(batches, (batch) => apply("batch_size=" + batch)),
    ...(isGood(chosen) ? [breakdownCard(chosen), conditionsCard(chosen, say), timelineCard(lastTrace)] : []), requestCard(request(device))].filter(Boolean));
  for (const one of views.querySelectorAll("details")) one.open = open.has(one.closest("section").id);
  if (place !== null && place >= 0) [...views.querySelectorAll("button, input, pre, [tabindex]")][place]?.focus();
}

let lastBatches = [], lastTrace = null;

async function answerOnce() {
  history.replaceState(null, "", link());
  showNetwork();
  if (job.devices.length === 0) {
    byId("views").replaceChildren();
    markWrong("device");
    return setStatus("Add a device.", true);
  }
  const answers = await post(job.devices.map((device, place) => request(device, place === job.chosen ? {} : { fit_advice: 0 })));
  markWrong(isGood(answers[job.chosen]) ? null : answers[job.chosen].error);
  setStatus(...statusOf(answers));
  show(answers, lastBatches);
  const sizes = isGood(answers[job.chosen]) ? batchSizes(answers[job.chosen].largest_batch) : [];
  const device = job.devices[job.chosen];
  const said = sizes.length > 0 ? await post(sizes.map((batch) => request(device, { batch_size: batch, fit_advice: 0 }))) : [];
  lastBatches = said.map((answer, i) => ({ batch: sizes[i], answer }));
  if (!isChanged) show(answers, lastBatches);
  if (isChanged || !isGood(answers[job.chosen])) return;
  lastTrace = await (await postTo("v1/trace", request(device))).json();
  if (!isChanged) show(answers, lastBatches);
}

/** At most one question is on its way; what changes meanwhile is asked next. */
async function ask() {
  isChanged = true;
  if (isAsking) return;
  isAsking = true;
  byId("answers").setAttribute("aria-busy", "true");
  while (isChanged) {
    isChanged = false;
    try {
      await answerOnce();
    } catch (error) {
      setStatus(error instanceof TypeError ? "The service does not answer: " + error.message : error.message, true);
    }
  }
  isAsking = false;
  byId("answers").removeAttribute("aria-busy");
}

function showModels() {
  byId("model").replaceChildren(...models.map((one) => el("option", { value: one.name }, one.rows > 0 ? `${one.name} (${one.rows} rows)` : one.name)));
  byId("model").value = job.model || models[0].name;
  byId("model-choice").hidden = models.length < 2;
  byId("model").addEventListener("change", (event) => {
    job.model = event.target.value === models[0].name ? "" : event.target.value;
    ask();
  });
}

async function start() {
  setStatus("asks what the service knows …");
  const [known, zoo, catalogue, served] = await Promise.all([get("v1/fields"), get("v1/networks"), get("v1/devices"), get("v1/models")]);
  fields = known.fields;
  networks = zoo.networks;
  devices = catalogue.devices;
  models = served.models;
  readLink();
  showModels();
  buildForm(ask);
  buildPlan();
  addEventListener("hashchange", () => {
    readLink();
    showForm();
    showDevices(ask);
    showPlan();
    ask();
  });
  await ask();
  document.body.dataset.ready = "true";
}

start().catch((error) => setStatus("The service does not answer: " + error.message, true));
