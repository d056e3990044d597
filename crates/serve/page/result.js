// A finished film beside the original: the same frame of both, or the film itself.
import { filmPath } from "./address.js";
import { Compare } from "./compare.js";
import { button, el, setText } from "./dom.js";
import { frames as framesText } from "./format.js";
import { Timeline } from "./timeline.js";

const IMAGES = /\.(png|jpe?g|webp|tiff?|bmp|exr)$/i;

export class Result {
  #timeline = new Timeline(() => this.#show());
  #compare = new Compare((by) => this.#timeline.step(by));
  #play = button("Play", () => this.#toggle(), { "aria-pressed": "false" });
  #note = el("p", { class: "note", role: "status" });
  #video = null;

  constructor(film) {
    this.film = film;
    this.frames = Math.max(1, film.metrics?.frames ?? 1);
    this.place = el("div", { class: "player", hidden: true });
    if (IMAGES.test(film.output_name ?? "")) this.#play.hidden = true;
    this.#compare.tools.append(this.#play);
    this.root = el(
      "section",
      { class: "result", "aria-label": "Result" },
      this.place,
      this.#compare.root,
      this.#timeline.root,
      this.#note,
      el("p", { class: "note keys" }, ...keyHelp(this.frames > 1)),
    );
    this.#timeline.setFilm(this.frames, null);
    this.#timeline.frame = Math.floor(this.frames / 3);
    this.#show();
  }

  destroy() {
    this.#stop();
    this.#compare.destroy();
  }

  again() {
    if (this.#compare.failed && !this.#video) this.#show();
  }

  #url(frame, side) {
    return filmPath(this.film, `/frames/${frame}?side=${side}`);
  }

  async #show() {
    const frame = this.#timeline.frame;
    await this.#compare.show({ before: this.#url(frame, "before"), after: this.#url(frame, "after"), name: `Frame ${frame}` });
    if (frame !== this.#timeline.frame) return;
    const near = [frame + 1, frame - 1].filter((n) => n >= 0 && n < this.frames);
    this.#compare.expect(near.flatMap((n) => [this.#url(n, "before"), this.#url(n, "after")]));
  }

  /** Changes between frames and the film, at the same place. */
  #toggle() {
    if (this.#video) {
      const { currentTime, duration } = this.#video;
      if (duration > 0) this.#timeline.frame = Math.min(this.frames - 1, Math.floor((currentTime / duration) * this.frames));
      this.#stop();
      this.#show();
      return;
    }
    const video = el("video", {
      controls: true,
      preload: "auto",
      "aria-label": `${framesText(this.frames)}, restored`,
      src: filmPath(this.film, "/content"),
    });
    const at = this.#timeline.frame / this.frames;
    video.addEventListener(
      "loadedmetadata",
      () => {
        video.currentTime = at * video.duration;
      },
      { once: true },
    );
    video.addEventListener("error", () => {
      this.#stop();
      setText(this.#note, "This browser cannot play the file. Download it, or choose mp4 or webm as the format.");
    });
    this.#video = video;
    setText(this.#note, "");
    this.place.replaceChildren(video);
    this.#playing(true);
    video.play().catch(() => {});
  }

  #stop() {
    if (!this.#video) return;
    this.#video.pause();
    this.#video.removeAttribute("src");
    this.#video = null;
    this.place.replaceChildren();
    this.#playing(false);
  }

  #playing(on) {
    this.place.hidden = !on;
    this.root.classList.toggle("playing", on);
    this.#timeline.root.hidden = on || this.frames <= 1;
    this.#play.setAttribute("aria-pressed", on);
    setText(this.#play, on ? "Back to frames" : "Play");
  }
}

function keyHelp(steps) {
  const keys = [
    steps && ["← →", "frame"],
    ["+ −", "zoom"],
    ["0", "fit"],
    ["1", "1:1"],
    ["Shift+arrows", "move"],
    ["B", "before or after"],
    ["D", "divider"],
    ["S", "side by side"],
  ];
  return keys.filter(Boolean).flatMap(([key, text], i) => [i ? " · " : "", el("kbd", {}, key), ` ${text}`]);
}
