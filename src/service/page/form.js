// SPDX-License-Identifier: Apache-2.0
// The form. What is typed stays as it is typed: nothing is corrected, cleared or put in order.

/** Fields in front; all others of /v1/fields stand under "more". */
const groups = [
  ["", ["batch_size", "precision", "input", "optimizer"]],
  ["The job", ["epochs", "train_images", "train_tokens", "max_steps", "startup_sec", "evaluation", "checkpoint_sec", "checkpoint_every", "budget_sec"]],
  ["Fine-tuning", ["adapter", "weights", "checkpoint", "accumulate", "loss", "padding", "lengths"]],
  ["Several devices", ["gpus_per_node", "parallel", "cluster"]],
  ["More", null],
];
const apart = new Set(["network", "device", "config", "step", "price_per_hour", "prices", "fit_advice", "depth", "base_filters"]);

const labels = {
  batch_size: "batch size", input: "input: sizes or words", train_images: "samples an epoch",
  train_tokens: "tokens an epoch", max_steps: "updates in all", startup_sec: "start-up", evaluation: "samples of an evaluation",
  checkpoint_sec: "a checkpoint takes", checkpoint_every: "epochs between checkpoints", budget_sec: "time budget",
  gpus_per_node: "devices on each node", parallel: "layout", quantiles: "quantiles", loss: "loss of language models",
  lengths: "lengths of texts", adapter: "adapter", weights: "type of weights", optimizer_impl: "optimizer's kernels",
  reserved_by_others: "memory of other programs", group_by_length: "group by length",
};
const suggestions = {
  adapter: ["lora:r=16,targets=all", "lora:r=16,targets=attention", "dora:r=16,targets=all", "ia3"],
  checkpoint: ["none", "all", "selective", "2"],
  parallel: ["ddp", "fsdp", "zero1", "zero2", "zero3", "tp=2,pp=1", "zero1+tp=8,pp=2"],
  gpus_per_node: ["1", "2", "4", "8", "8x2", "8x4", "8x8"],
  quantiles: ["0.99", "0.999"],
  lengths: ["mean=400,p95=1200,max=4096"],
};

function control(field, changed) {
  const id = "field-" + field.name;
  const set = (event) => {
    job.fields[field.name] = event.target.value;
    changed();
  };
  const common = { id, name: field.name, title: field.meaning };
  const known = suggestions[field.name];
  let input;
  if ((field.type === "word" && field.words) || field.type === "flag") {
    const words = field.type === "flag" ? ["0", "1"] : field.words.filter((word) => word !== "unknown");
    const typed = job.fields[field.name];
    if (typed && !words.includes(typed)) words.push(typed);
    input = el("select", { ...common, onchange: set }, el("option", { value: "" }, field.default ? `${field.default} (default)` : "default"),
      words.map((word) => el("option", { value: word }, field.type === "flag" ? ["no", "yes"][word] : word)));
  } else {
    input = el("input", { ...common, oninput: set, spellcheck: "false", placeholder: field.default ?? "",
      inputmode: field.type === "integer" && !known ? "numeric" : null, list: known ? id + "-list" : null });
  }
  return el("div", { class: "field" }, el("label", { for: id }, labels[field.name] ?? field.name.replaceAll("_", " ")), input,
    known ? el("datalist", { id: id + "-list" }, known.map((one) => el("option", { value: one }))) : null);
}

function networkField(changed) {
  return el("div", { class: "field" },
    el("label", { for: "network" }, "network"),
    el("input", { id: "network", list: "networks", spellcheck: "false", placeholder: "type a name", oninput: (event) => {
      job.fields.network = event.target.value;
      changed();
    } }),
    el("datalist", { id: "networks" }, networks.flatMap((one) =>
      [el("option", { value: one.name }, count(one.params) + " parameters"), one.hub ? el("option", { value: one.hub }, one.name) : null])),
    el("p", { class: "hint", id: "network-hint" }));
}

function dropField(changed) {
  const take = async (file) => {
    const text = await file.text();
    job.file = { kind: /"ops"\s*:/.test(text) && /"storages"\s*:/.test(text) ? "step" : "config", name: file.name, text };
    showForm();
    changed();
  };
  const box = el("div", { class: "drop", id: "drop" },
    el("label", { for: "file" }, "or a config.json or a step file: drop it here, or choose it"),
    el("input", { id: "file", type: "file", accept: ".json,application/json", onchange: (event) => {
      if (event.target.files[0]) take(event.target.files[0]);
    } }),
    el("p", { class: "hint", id: "file-name" }));
  for (const type of ["dragover", "dragleave", "drop"]) {
    box.addEventListener(type, (event) => {
      event.preventDefault();
      box.classList.toggle("over", type === "dragover");
      if (type === "drop" && event.dataTransfer.files[0]) take(event.dataTransfer.files[0]);
    });
  }
  return box;
}

function addDevice(name, changed) {
  if (name.trim() === "") return;
  job.devices.push({ name: name.trim(), price: "" });
  byId("device").value = "";
  showDevices(changed);
  changed();
}

function devicesField(changed) {
  const add = el("input", { id: "device", list: "device-names", spellcheck: "false", placeholder: "add a device",
    "aria-label": "add a device", onkeydown: (event) => {
      if (event.key !== "Enter") return;
      event.preventDefault();
      addDevice(add.value, changed);
    } });
  return el("fieldset", {}, el("legend", {}, "devices, and the price of each per hour"),
    el("ul", { class: "chips", id: "devices" }),
    el("div", { class: "row" }, add, el("button", { type: "button", id: "add-device", onclick: () => addDevice(add.value, changed) }, "add")),
    el("datalist", { id: "device-names" }, devices.flatMap((one) => [one.name, ...one.aliases]).map((name) => el("option", { value: name }))));
}

function showDevices(changed) {
  byId("devices").replaceChildren(...job.devices.map((device, place) =>
    el("li", { class: "chip" }, el("span", {}, device.name),
      el("input", { value: device.price, placeholder: "price/h", inputmode: "decimal", "aria-label": "price per hour of " + device.name,
        oninput: (event) => {
          device.price = event.target.value;
          changed();
        } }),
      el("button", { type: "button", "aria-label": "remove " + device.name, onclick: () => {
        job.devices.splice(place, 1);
        if (job.chosen >= place && job.chosen > 0) --job.chosen;
        showDevices(changed);
        byId("device").focus();
        changed();
      } }, "×"))));
}

function buildForm(changed) {
  const inFront = new Set(groups.flatMap(([, names]) => names ?? []));
  const rest = fields.filter((one) => !apart.has(one.name) && !inFront.has(one.name)).map((one) => one.name);
  const pairs = (names) => names.map((name) => fields.find((one) => one.name === name)).filter(Boolean).map((one) => control(one, changed));
  byId("job").replaceChildren(networkField(changed), dropField(changed), devicesField(changed), ...groups.map(([title, names]) => {
    const inputs = el("div", { class: "pair" }, pairs(names ?? rest));
    return title === "" ? inputs : el("details", { id: "group-" + title.toLowerCase().replaceAll(" ", "-") }, el("summary", {}, title), el("div", {}, inputs));
  }), el("p", { class: "hint" }, "What you leave out is taken as usual, and the interval is as much wider."));
  byId("job").addEventListener("submit", (event) => event.preventDefault());
  showForm();
  showDevices(changed);
}

/** Writes what the job has into the form, but never into the field that somebody types in. */
function showForm() {
  for (const input of byId("job").querySelectorAll("input[name], select[name]")) {
    if (input === document.activeElement) continue;
    input.value = job.fields[input.name] ?? "";
  }
  const network = byId("network");
  if (network !== document.activeElement) network.value = job.fields.network ?? "";
  network.disabled = job.file !== null;
  byId("file-name").replaceChildren(...(job.file
    ? [`${job.file.name} (${job.file.kind === "step" ? "a captured step" : "config.json"})${job.file.text ? "" : ": too large for a link, drop it again"} `,
      el("button", { type: "button", id: "drop-file", onclick: () => {
        job.file = null;
        byId("file").value = "";
        showForm();
        ask();
      } }, "take a network by name")] : []));
  for (const group of byId("job").querySelectorAll("details")) {
    if ([...group.querySelectorAll("[name]")].some((input) => job.fields[input.name])) group.open = true;
  }
}

/** Says what is usual for the network, and what it lacks. */
function showNetwork() {
  const known = networks.find((one) => one.name === job.fields.network || one.hub === job.fields.network?.toLowerCase());
  byId("network-hint").textContent = job.file || !known ? "" :
    `${count(known.params)} parameters, ${known.input ? `usual input ${known.input}` : job.fields.input ? "no usual length" : "no usual length: say the input"}`;
  const input = byId("field-input");
  if (input) input.placeholder = known?.input ?? "3x224x224 or 2048";
}
