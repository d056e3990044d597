// One frame before and after, before anything long starts.
import { Problem, local, post } from "./api.js";
import { Compare } from "./compare.js";
import { announce, button, el, problem, setProblem, setText } from "./dom.js";
import { duration } from "./format.js";
import { Timeline } from "./timeline.js";

export class Preview {
  #timeline = new Timeline(() => this.#show());
  #compare = new Compare((by) => this.#timeline.step(by));
  #start = button("Restore this frame", () => this.#make(), { class: "strong" });
  #stop = button("Cancel", () => this.#making?.abort(), { hidden: true });
  #status = el("span", { class: "note" });
  #failed = problem();
  #making = null;
  /** The newest preview: where it was made, with what, and its pictures. */
  #made = null;

  /** `pictureAt(seconds)` gives the address of a frame of the film; `request()` the model and the input. */
  constructor(pictureAt, request) {
    this.pictureAt = pictureAt;
    this.request = request;
    this.#compare.root.hidden = true;
    this.root = el(
      "section",
      { class: "preview", "aria-label": "Preview" },
      this.#compare.root,
      this.#timeline.root,
      el("div", { class: "acts" }, this.#start, this.#stop, this.#status),
      this.#failed,
    );
  }

  setFilm(frames, fps) {
    this.#timeline.setFilm(frames, fps);
    // The first frames are often black.
    this.#timeline.frame = Math.floor(frames / 3);
    this.#show();
  }

  settingsChanged() {
    if (this.#made && !this.#making) this.#say();
  }

  /** What could not be shown for want of a connection. A frame is not restored again: that takes a device. */
  again() {
    if (this.#compare.failed) this.#show();
  }

  destroy() {
    this.#making?.abort();
    this.#compare.destroy();
  }

  #key() {
    return JSON.stringify(this.request());
  }

  #say() {
    const here = this.#made?.frame === this.#timeline.frame;
    setText(
      this.#status,
      !here ? "" : this.#made.key === this.#key() ? `Took ${duration(this.#made.took)}.` : "Made with other settings.",
    );
  }

  #show() {
    const frame = this.#timeline.frame;
    const name = `Frame ${frame}`;
    const made = this.#made?.frame === frame ? this.#made : null;
    const before = made?.before ?? this.pictureAt(this.#timeline.seconds);
    this.#compare.root.hidden = false;
    this.#compare.show({ before, after: made?.after, name });
    if (!this.#making) this.#say();
  }

  async #make() {
    const [frame, key, seconds, since] = [this.#timeline.frame, this.#key(), this.#timeline.seconds, performance.now()];
    // The time counts from the first frame of the film, whatever part of it is restored.
    const {
      version,
      input: { start, end, ...input },
    } = this.request();
    const took = () => (performance.now() - since) / 1000;
    const making = new AbortController();
    this.#making = making;
    this.#working(true);
    setProblem(this.#failed, null);
    const tick = () => setText(this.#status, `Restoring frame ${frame}: ${duration(took())} so far`);
    tick();
    const ticking = setInterval(tick, 1000);
    try {
      // Without a limit: the seconds are shown, and so is the way out.
      const { before, after } = await post(
        "/v1/previews",
        { version, input, seconds: Math.round(seconds * 1000) / 1000 },
        { signal: making.signal, limit: 0 },
      );
      this.#made = { frame, key, took: took(), before: local(before), after: local(after) };
      announce(`Frame ${frame} is restored`);
    } catch (error) {
      const lost = new Problem("The connection was lost before the frame was restored. Restore it again.");
      if (!making.signal.aborted) setProblem(this.#failed, error.status === 0 ? lost : error);
    }
    clearInterval(ticking);
    this.#making = null;
    this.#working(false);
    this.#show();
  }

  #working(on) {
    const moved = document.activeElement === (on ? this.#start : this.#stop);
    this.#start.hidden = on;
    this.#stop.hidden = !on;
    if (moved) (on ? this.#stop : this.#start).focus();
  }
}
