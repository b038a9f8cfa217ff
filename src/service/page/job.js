// SPDX-License-Identifier: Apache-2.0
// What is asked: fields by their names, devices, and a file in place of a network. It stands in the address, so that a
// link is the question.

/** `fields`: what was typed, as it was typed; `queue`: so too. `file`: {kind: "config" | "step", name, text}, or null. */
const job = { fields: {}, devices: [], chosen: 0, file: null, model: "", queue: { rows: "", budget: "" } };

const firstQuestion = {
  fields: { network: "resnet50", batch_size: "64", precision: "bf16" },
  devices: [["L4", ""], ["A100-PCIe-80GB", ""], ["H100-SXM5-80GB", ""]],
};

/** A config.json of usual size stands in the link itself. */
const longestInLink = 6000;

function readLink() {
  const link = new URLSearchParams(location.hash.slice(1));
  Object.assign(job, { fields: {}, devices: [], chosen: 0, file: null, model: "", queue: { rows: "", budget: "" } });
  if ([...link].length === 0) {
    job.fields = { ...firstQuestion.fields };
    job.devices = firstQuestion.devices.map(([name, price]) => ({ name, price }));
    return;
  }
  for (const [name, value] of link) {
    if (name === "device") {
      const at = value.lastIndexOf("@");
      job.devices.push(at < 0 ? { name: value, price: "" } : { name: value.slice(0, at), price: value.slice(at + 1) });
    } else if (name === "chosen") job.chosen = Math.max(0, parseInt(value, 10) || 0);
    else if (name === "model") job.model = value;
    else if (name === "queue") job.queue.rows = value;
    else if (name === "queue_budget") job.queue.budget = value;
    else if (name === "config" || name === "step") job.file = { kind: name, name: link.get("file") ?? name, text: value };
    else if (name !== "file") job.fields[name] = value;
  }
  job.chosen = Math.min(job.chosen, Math.max(0, job.devices.length - 1));
}

function link() {
  const to = new URLSearchParams();
  for (const [name, value] of Object.entries(job.fields)) if (value !== "") to.append(name, value);
  for (const { name, price } of job.devices) to.append("device", price === "" ? name : name + "@" + price);
  if (job.chosen > 0) to.set("chosen", job.chosen);
  if (job.model) to.set("model", job.model);
  if (job.queue.rows.trim() !== "") to.set("queue", job.queue.rows);
  if (job.queue.budget.trim() !== "") to.set("queue_budget", job.queue.budget);
  if (job.file) {
    to.set("file", job.file.name);
    to.set(job.file.kind, job.file.text.length <= longestInLink ? job.file.text : "");
  }
  return "#" + to;
}

/** A number where the text is one, so that the request reads as people write it. */
const asValue = (text) => (/^-?\d+(\.\d+)?$/.test(text) && String(Number(text)) === text ? Number(text) : text);

/** Terms that need an epoch that is known. */
const termsOfEpochs = ["epochs", "startup_sec", "evaluation", "checkpoint_sec", "checkpoint_every", "budget_sec"];

/** Whether anybody says how many samples an epoch has: the question, or the data that image networks are trained on. */
function knowsEpoch() {
  if (["train_images", "train_tokens", "max_steps"].some((name) => job.fields[name])) return true;
  const known = networks.find((one) => one.name === job.fields.network || one.hub === job.fields.network?.toLowerCase());
  return !job.file && (known ? (known.input ?? "").includes("x") : /^cifar_/.test(job.fields.network ?? ""));
}

/** The object that --jsonl takes, of one device. */
function request(device, changes = {}) {
  const asked = {};
  const known = knowsEpoch();
  if (job.file) asked[job.file.kind] = job.file.text;
  for (const [name, value] of Object.entries(job.fields)) {
    if (value.trim() === "" || (job.file && name === "network") || (!known && termsOfEpochs.includes(name))) continue;
    asked[name] = name === "quantiles" ? value.split(/[,\s]+/).filter(Boolean).map(Number) : asValue(value.trim());
  }
  if (device) {
    asked.device = device.name;
    if (device.price.trim() !== "" && known) asked.price_per_hour = asValue(device.price.trim());
  }
  return { ...asked, ...changes };
}

const quoted = (text) => (/^[\w.,:/@%+=-]+$/.test(text) ? text : "'" + text.replaceAll("'", "'\\''") + "'");

/** The file of the model that answers; empty of the standard model, which needs none. */
function modelFile() {
  const model = models.find((one) => one.name === job.model) ?? models[0];
  return model?.observes ? model.name + ".json" : "";
}

/** The same in a shell. */
function commandLine(asked) {
  const words = ["perfpred", "predict"];
  for (const [name, value] of Object.entries(asked)) {
    const isFile = name === "config" || name === "step";
    const option = "--" + (name === "quantiles" ? "quantile" : name).replaceAll("_", "-");
    for (const one of Array.isArray(value) ? value : [value]) words.push(option, quoted(isFile ? job.file.name : String(one)));
  }
  if (modelFile()) words.push("--model", quoted(modelFile()));
  return words.join(" ");
}

/** The same in Python. */
function pythonLine(asked) {
  const { network, config: _config, step: _step, ...rest } = asked;
  const text = (value) => (typeof value === "string" ? JSON.stringify(value) : Array.isArray(value) ? JSON.stringify(value) : String(value));
  const first = job.file ? [text(job.file.name)] : network !== undefined ? [text(network)] : [];
  const model = modelFile() ? `perfpred.load(${text(modelFile())})` : "perfpred";
  return `${model}.predict(${[...first, ...Object.entries(rest).map(([name, value]) => `${name}=${text(value)}`)].join(", ")})`;
}
