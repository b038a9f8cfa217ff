// SPDX-License-Identifier: Apache-2.0
// Elements of the page and of its pictures.

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined));
  return element;
}

const el = (name, attributes = {}, ...children) => fill(document.createElement(name), attributes, children);

const svg = (name, attributes = {}, ...children) =>
  fill(document.createElementNS("http://www.w3.org/2000/svg", name), attributes, children);

const byId = (id) => document.getElementById(id);

/** A card with a heading. */
const card = (title, attributes, ...children) =>
  el("section", { ...attributes, class: "card " + (attributes.class ?? "") }, el("h2", {}, title), ...children);

/** Copies a text, in a page without the clipboard's own interface, too. */
async function copy(text, button) {
  const said = button.textContent;
  try {
    if (navigator.clipboard) {
      await navigator.clipboard.writeText(text);
    } else {
      const area = el("textarea", { style: "position:fixed;opacity:0" });
      area.value = text;
      document.body.append(area);
      area.select();
      const copied = document.execCommand("copy");
      area.remove();
      if (!copied) throw new Error("refused");
    }
    button.textContent = "copied";
  } catch {
    button.textContent = "mark the text and copy it";
  }
  setTimeout(() => { button.textContent = said; }, 1500);
}
