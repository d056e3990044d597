// A picture before and after: with a divider between the two, or side by side, at the same zoom and place.
import { picture } from "./api.js";
import { button, el, problem, setProblem, setText } from "./dom.js";
import { size } from "./format.js";
import { gestures } from "./gestures.js";
import { Zoom } from "./zoom.js";

const MODES = { split: "Divider", side: "Side by side", before: "Before", after: "After" };

export class Compare {
  #shelf = new Shelf();
  #zoom = new Zoom();
  #before = new Layer("before", "Before");
  #after = new Layer("after", "After");
  #divider = el("div", {
    class: "divider",
    role: "slider",
    tabindex: "0",
    "aria-label": "Divider between before and after",
    "aria-valuemin": "0",
    "aria-valuemax": "100",
  });
  #stage = el("div", { class: "stage", tabindex: "0", role: "group" }, this.#before.root, this.#after.root, this.#divider);
  #modes = Object.entries(MODES).map(([name, text]) =>
    button(
      text,
      () => {
        this.mode = name;
      },
      { "data-mode": name },
    ),
  );
  #modeGroup = el("span", { class: "segments", role: "group", "aria-label": "View", hidden: true }, ...this.#modes);
  #fit = button("Fit", () => this.zoomTo("fit"));
  #whole = button("1:1", () => this.zoomTo(1), { title: "One pixel of the picture on one pixel of the screen" });
  #reading = el("output", { "aria-label": "Zoom" });
  #note = el("p", { class: "note", role: "status" });
  #failed = problem();
  #mode = "split";
  #at = 50;
  #turn = 0;
  #fetching = new AbortController();
  #expecting = new AbortController();
  #resized = new ResizeObserver(() => this.#draw());

  /** `step(-1)` and `step(1)` are called for the arrow keys. */
  constructor(step) {
    this.step = step;
    const zooms = el(
      "span",
      { class: "segments", role: "group", "aria-label": "Zoom" },
      this.#fit,
      this.#whole,
      button("−", () => this.zoomBy(1 / 1.5), { "aria-label": "Zoom out" }),
      button("+", () => this.zoomBy(1.5), { "aria-label": "Zoom in" }),
    );
    this.tools = el("div", { class: "tools" }, this.#modeGroup, zooms, this.#reading);
    this.root = el("div", { class: "compare" }, this.#stage, this.tools, this.#note, this.#failed);
    gestures(this.#stage, this.#divider, this);
    this.#resized.observe(this.#stage);
  }

  /** Whether the newest pictures could not be shown. */
  get failed() {
    return !this.#failed.hidden;
  }

  /**
   * Shows both pictures once both are there, so that never two frames are compared. `after` may be missing. A film that is gone has
   * no frame `before` any more.
   */
  async show({ before, after, name }) {
    const mine = ++this.#turn;
    this.#fetching.abort();
    this.#fetching = new AbortController();
    this.#stage.setAttribute("aria-busy", "true");
    let error = null;
    try {
      const { signal } = this.#fetching;
      const image = async (url) => url && decode(await this.#shelf.get(url, signal));
      const gone = (reason) => {
        if (after && reason.status === 404) return null;
        throw reason;
      };
      const images = await Promise.all([image(before).catch(gone), image(after)]);
      if (mine === this.#turn) this.#put(images, name);
    } catch (reason) {
      error = reason.status === undefined ? new Error("The browser cannot show this picture.") : reason;
    }
    if (mine !== this.#turn) return;
    setProblem(this.#failed, error);
    this.#stage.removeAttribute("aria-busy");
  }

  /** Fetches pictures that are probably wanted next. */
  expect(urls) {
    this.#expecting.abort();
    this.#expecting = new AbortController();
    for (const url of urls) this.#shelf.get(url, this.#expecting.signal).catch(() => {});
  }

  destroy() {
    this.#turn += 1;
    this.#fetching.abort();
    this.#expecting.abort();
    this.#resized.disconnect();
    this.#before.put();
    this.#after.put();
  }

  #put([first, second], name) {
    const shown = second ?? first;
    this.#before.put(first, `${name}, before`, first?.naturalWidth !== second?.naturalWidth);
    this.#after.put(second, `${name}, after`, true);
    setText(this.#note, first ? "" : "The original is no longer there.");
    this.#zoom.setPicture(shown.naturalWidth, shown.naturalHeight);
    this.#stage.setAttribute(
      "aria-label",
      `${name}. Left and right arrow keys step through frames, plus and minus zoom, Shift with arrow keys moves the picture.`,
    );
    this.#draw();
  }

  get #both() {
    return Boolean(this.#before.image && this.#after.image);
  }

  get mode() {
    if (this.#both) return this.#mode;
    return this.#after.image ? "after" : "before";
  }

  set mode(mode) {
    if (this.#both)
      this.#change(() => {
        this.#mode = mode;
      });
  }

  /** Where the divider is, in hundredths of the width. */
  get divider() {
    return this.#at;
  }

  set divider(at) {
    this.#change(() => {
      this.#at = Math.min(100, Math.max(0, at));
    });
  }

  get fits() {
    return this.#zoom.zoom === "fit";
  }

  get pans() {
    return this.#zoom.pans(this.#room());
  }

  zoomTo(zoom, point) {
    this.#change(() => this.#zoom.to(zoom, this.#room(), point));
  }

  zoomBy(factor, point) {
    this.#change(() => this.#zoom.by(factor, this.#room(), point));
  }

  pan(dx, dy) {
    this.#change(() => this.#zoom.pan(dx, dy, this.#room()));
  }

  #change(action) {
    if (!this.#zoom.width) return;
    action();
    this.#draw();
  }

  #room() {
    return (this.mode === "before" ? this.#before : this.#after).room();
  }

  #draw() {
    if (!this.#zoom.width) return;
    const style = this.#stage.style;
    this.root.dataset.mode = this.mode;
    this.#modeGroup.hidden = !this.#both;
    style.setProperty("--width", this.#zoom.width);
    style.setProperty("--height", this.#zoom.height);
    style.setProperty("--at", `${this.#at}%`);
    for (const each of this.#modes) each.setAttribute("aria-pressed", each.dataset.mode === this.mode);
    this.#fit.setAttribute("aria-pressed", this.fits);
    this.#whole.setAttribute("aria-pressed", this.#zoom.zoom === 1);
    this.#divider.setAttribute("aria-valuenow", Math.round(this.#at));
    this.#divider.setAttribute("aria-valuetext", `${Math.round(this.#at)}% before`);
    const layers = [this.#before, this.#after].filter((layer) => layer.image);
    for (const layer of layers) layer.lay(this.#zoom);
    const now = this.#zoom.now(this.#room());
    // Single pixels, but only of pictures of one size: a small one would look coarser than it is.
    this.#stage.dataset.pixels = now >= 4 && new Set(layers.map((layer) => layer.image.naturalWidth)).size === 1;
    this.#stage.dataset.pans = this.pans;
    setText(this.#reading, `${Math.round(now * 100)}%`);
  }
}

/** One of the two pictures, with its name in the corner. */
class Layer {
  #tag = el("span", { class: "tag" });
  image;

  constructor(name, label) {
    this.label = label;
    this.root = el("div", { class: `layer ${name}`, hidden: true }, this.#tag);
  }

  /** A picture that was resized to be compared does not say its size: it is not the film's. */
  put(image, alt, sized) {
    this.image?.remove();
    this.image = image;
    this.root.hidden = !image;
    if (!image) return;
    image.alt = alt;
    image.draggable = false;
    this.root.prepend(image);
    setText(this.#tag, sized ? `${this.label} ${size(image.naturalWidth, image.naturalHeight)}` : this.label);
  }

  room() {
    return { width: this.root.clientWidth, height: this.root.clientHeight };
  }

  lay(zoom) {
    const { width, height, left, top } = zoom.place(this.room());
    Object.assign(this.image.style, { width: `${width}px`, height: `${height}px`, transform: `translate(${left}px, ${top}px)` });
  }
}

/** Pictures that were fetched, so that a step back shows at once. They are kept compressed: decoded they are twenty times as large. */
class Shelf {
  #entries = new Map();

  get(url, signal) {
    const kept = this.#entries.get(url);
    if (kept && !kept.signal?.aborted) return kept.blob;
    const entry = { blob: picture(url, signal), signal };
    this.#entries.set(url, entry);
    entry.blob.then(
      () => {
        entry.signal = null;
      },
      () => this.#entries.get(url) === entry && this.#entries.delete(url),
    );
    if (this.#entries.size > 16) this.#entries.delete(this.#entries.keys().next().value);
    return entry.blob;
  }
}

async function decode(blob) {
  const image = new Image();
  image.src = URL.createObjectURL(blob);
  await image.decode().finally(() => URL.revokeObjectURL(image.src));
  return image;
}
