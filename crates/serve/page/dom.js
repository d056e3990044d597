// Elements are made here and nowhere else, without markup: the name of a film is text of a stranger and must never become HTML.

/** `el("p", { class: "note", onclick: act }, "text", node)`; what is null, undefined or false is left out. */
export function el(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.filter((child) => child !== undefined && child !== null && child !== false));
  return node;
}

export const button = (text, onclick, attributes = {}) => el("button", { type: "button", onclick, ...attributes }, text);

/** The name of a film. Isolated, so that letters that turn the direction of writing turn nothing else. */
export const filmName = (name) => el("bdi", { title: name }, name);

/** Unchanged text is left alone: screen readers and selections notice. */
export function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

/** One sentence about what went wrong, or nothing. */
export function setProblem(node, error) {
  node.hidden = !error;
  setText(node, error ? error.message : "");
}

export const problem = () => el("p", { class: "problem", role: "alert", hidden: true });

/** Fills a `dl` with pairs of a term and a text or node; pairs without a value are left out. */
export function facts(list, pairs) {
  const known = pairs.filter(([, value]) => value !== undefined && value !== null && value !== "");
  sync(
    list,
    known,
    ([term]) => term,
    ([term]) => el("div", {}, el("dt", {}, term), el("dd")),
    (row, [, value]) => {
      const place = row.lastElementChild;
      if (value instanceof Node) place.firstChild === value || place.replaceChildren(value);
      else setText(place, value);
    },
  );
}

/** Makes the children of `parent` those of `items`. What stays keeps its element, and its focus when it moves. */
export function sync(parent, items, key, make, update) {
  const old = new Map([...parent.children].map((node) => [node.dataset.key, node]));
  let at = parent.firstElementChild;
  for (const item of items) {
    const id = String(key(item));
    const node = old.get(id) ?? make(item);
    old.delete(id);
    node.dataset.key = id;
    update(node, item);
    if (node === at) at = at.nextElementSibling;
    else move(parent, node, at);
  }
  for (const node of old.values()) node.remove();
}

function move(parent, node, before) {
  const focused = node.contains(document.activeElement) && document.activeElement;
  parent.insertBefore(node, before);
  if (focused) focused.focus({ preventScroll: true });
}

const unsaid = [];
let saying = 0;

/** Says something to screen readers. */
export function announce(text) {
  unsaid.push(text);
  if (!saying) say();
}

/** One thing after the other, and nothing in between: the same words again would be no change, which nobody hears. */
function say() {
  const place = document.getElementById("announcer");
  const text = place.textContent ? "" : (unsaid.shift() ?? "");
  place.textContent = text;
  saying = text || unsaid.length ? setTimeout(say, text ? 1000 : 100) : 0;
}

/** A text to copy, with a button where the browser allows that: only on loopback and over TLS. */
export function copyable(text, what) {
  const code = el("code", {}, text);
  if (!navigator.clipboard) return code;
  const copy = button(
    "Copy",
    async () => {
      await navigator.clipboard.writeText(text);
      announce(`${what} copied`);
      copy.textContent = "Copied";
      setTimeout(() => {
        copy.textContent = "Copy";
      }, 2000);
    },
    { class: "small", "aria-label": `Copy ${what}` },
  );
  return el("span", { class: "copyable" }, code, " ", copy);
}
