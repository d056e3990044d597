// Choosing a frame of a film.
import { button, el, setText } from "./dom.js";
import { count, timecode } from "./format.js";

/** Long enough that a sweep over a film asks for few pictures, and short enough that a step shows at once. */
const QUIET = 90;

export class Timeline {
  #range = el("input", { type: "range", min: "0", max: "0", step: "1", value: "0", "aria-label": "Frame" });
  #reading = el("output", { class: "reading" });
  #back = button("‹", () => this.step(-1), { "aria-label": "Previous frame" });
  #forth = button("›", () => this.step(1), { "aria-label": "Next frame" });
  #timer = 0;
  #fps = null;

  /** `changed()` is called when another frame was chosen and the choice stands still. */
  constructor(changed) {
    this.changed = changed;
    this.root = el("div", { class: "timeline", hidden: true }, this.#back, this.#range, this.#forth, this.#reading);
    this.#range.addEventListener("input", () => this.#moved());
  }

  /** Without frames per second no times are shown. */
  setFilm(frames, fps) {
    this.root.hidden = frames <= 1;
    this.#range.max = Math.max(0, frames - 1);
    this.#fps = fps;
    this.#read();
  }

  get frame() {
    return Number(this.#range.value);
  }

  set frame(frame) {
    this.#range.value = frame;
    this.#read();
  }

  /** A place in the film. The server takes the first frame from there on, so half a frame earlier survives rounding. */
  get seconds() {
    return this.#fps ? Math.max(0, this.frame - 0.5) / this.#fps : 0;
  }

  step(by) {
    const to = Math.min(Number(this.#range.max), Math.max(0, this.frame + by));
    if (to === this.frame) return;
    this.#range.value = to;
    this.#moved();
  }

  #moved() {
    this.#read();
    clearTimeout(this.#timer);
    this.#timer = setTimeout(this.changed, QUIET);
  }

  #read() {
    const text = `frame ${count(this.frame)} of ${count(Number(this.#range.max) + 1)}`;
    const at = this.#fps ? `${timecode(this.frame / this.#fps)}, ${text}` : text;
    setText(this.#reading, at);
    this.#range.setAttribute("aria-valuetext", at);
  }
}
