// One film of the queue: how it is doing, or what came of it.
import { actionButtons } from "./actions.js";
import { filmPath, view } from "./address.js";
import { local } from "./api.js";
import { announce, copyable, el, facts, filmName, problem, setText } from "./dom.js";
import { duration, frames, moment, percent, timecode } from "./format.js";
import { Result } from "./result.js";
import { state } from "./state.js";
import { NAMES } from "./settings.js";
import { ended, label, modelOf, numbers, runs, saved } from "./status.js";

export function filmView(parameters) {
  return new Film(parameters.get("id"));
}

class Film {
  #heading = el("h2", { tabindex: "-1" });
  #state = el("p", { class: "state" });
  #failed = problem();
  #buttons = actionButtons(() => state.films.get(this.id), this.#failed);
  #download = el("a", { class: "button primary", download: true }, "Download");
  #again = el("a", { class: "button" }, "Restore again…");
  #body = el("div");
  #shape = "";
  #part = null;
  #told = 0;

  constructor(id) {
    this.id = id;
    this.title = "Film";
    this.#buttons.box.prepend(this.#download);
    this.#buttons.box.append(this.#again);
    this.root = el(
      "section",
      { class: "film" },
      this.#heading,
      el("div", { class: "headline" }, this.#state, this.#buttons.box),
      this.#failed,
      this.#body,
    );
  }

  update() {
    const film = state.films.get(this.id);
    if (!film) {
      this.#absent();
      return;
    }
    this.title = film.name;
    if (this.#heading.textContent !== film.name) this.#heading.replaceChildren(filmName(film.name));
    this.root.dataset.status = film.status;
    setText(this.#state, label(film));
    this.#buttons.box.hidden = false;
    this.#buttons.update(film);
    this.#download.hidden = film.status !== "succeeded";
    this.#download.setAttribute("href", filmPath(film, "/content?download=1"));
    this.#again.setAttribute("href", again(film));
    this.#again.hidden = !ended(film);
    const shape = film.status === "processing" ? "runs" : film.status;
    if (shape !== this.#shape) this.#build(shape, film);
    this.#part.update(film);
    this.#tell(film);
  }

  again() {
    this.#part?.again?.();
  }

  destroy() {
    this.#part?.destroy?.();
  }

  #build(shape, film) {
    this.#part?.destroy?.();
    this.#shape = shape;
    this.#part = { succeeded: done, runs: running, absent }[shape]?.(film) ?? still();
    this.#body.replaceChildren(this.#part.root);
  }

  #absent() {
    if (this.#shape === "absent") return;
    const focused = this.root.contains(document.activeElement);
    this.#build("absent");
    this.#buttons.box.hidden = true;
    setText(this.#heading, "This film is not here");
    setText(this.#state, "");
    // What had the focus is gone.
    if (focused) this.#heading.focus();
  }

  /** Progress in quarters, for those who hear it. */
  #tell(film) {
    const quarter = runs(film) ? Math.floor((film.progress?.share ?? 0) * 4) : 0;
    if (quarter > this.#told) announce(`${film.name}: ${percent(quarter / 4)}`);
    this.#told = quarter;
  }
}

function absent() {
  return {
    root: el("p", {}, "It was removed, or it was kept until its time ran out. ", el("a", { href: "#" }, "Add a film")),
    update() {},
  };
}

/** The settings of a film, for another one. */
function again(film) {
  const { media, lossless, ...input } = film.input ?? {};
  const known = Object.entries(input).filter(([name, value]) => NAMES.includes(name) && value !== null);
  const parameters = { media, model: modelOf(film), ...Object.fromEntries(known) };
  return view("new", lossless ? { ...parameters, output_format: "mkv lossless" } : parameters);
}

function settingsOf(film) {
  const words = {
    output_format: "Format",
    output_quality: "Quality",
    start: "From",
    end: "To",
    color: "Colour",
    resolution: "Size",
  };
  const name = (key) => words[key] ?? key[0].toUpperCase() + key.slice(1);
  return [
    ["Model", modelOf(film)],
    ...Object.entries(film.input ?? {})
      .filter(([key]) => key !== "media")
      .map(([key, value]) => [name(key), String(value)]),
  ];
}

function running(film) {
  const bar = el("progress", { max: "1", class: "large", "aria-label": "Progress" });
  const list = el("dl", { class: "facts wide" });
  const image = el("img", { alt: "" });
  const caption = el("p", { class: "note" });
  const figure = el("div", { class: "newest", hidden: true }, el("div", { class: "stage" }, image), caption);
  const settings = el("dl", { class: "facts wide" });
  facts(settings, settingsOf(film));
  const root = el("div", {}, bar, list, figure, el("h3", {}, "Settings"), settings);
  let now = film;

  function update(next) {
    now = next;
    const share = next.progress?.share;
    if (Number.isFinite(share)) bar.value = share;
    else bar.removeAttribute("value");
    facts(list, numbers(next));
    if (!next.picture) return;
    // Every picture has an address of its own.
    const url = local(next.picture.url);
    const at = timecode(next.picture.seconds);
    if (image.getAttribute("src") !== url) {
      image.src = url;
      image.alt = `Newest restored picture, at ${at}`;
      image.onload = () => {
        figure.hidden = false;
      };
      setText(caption, `Newest restored picture, reduced, at ${at}.`);
    }
  }
  const clock = setInterval(() => facts(list, numbers(now)), 1000);
  return { root, update, destroy: () => clearInterval(clock) };
}

function done(film) {
  const result = new Result(film);
  const list = el("dl", { class: "facts wide" });
  const settings = el("dl", { class: "facts wide" });
  facts(settings, settingsOf(film));
  facts(list, [
    ["Name", filmName(film.output_name ?? film.name)],
    ["On the server", film.file && copyable(film.file, "the path")],
    ["Kept until", film.expires_at ? moment(film.expires_at) : ""],
    ["Frames", film.metrics?.frames && frames(film.metrics.frames)],
    ["Took", film.metrics?.predict_time && duration(film.metrics.predict_time)],
    ["Finished", moment(film.completed_at)],
  ]);
  return {
    root: el("div", {}, result.root, el("h3", {}, "File"), list, el("h3", {}, "Settings"), settings),
    update() {},
    again: () => result.again(),
    destroy: () => result.destroy(),
  };
}

/** A film that waits, failed or was canceled. */
function still() {
  const error = el("p", { class: "problem" });
  const text = el("p");
  const logs = el("pre");
  const folded = el("details", {}, el("summary", {}, "Log"), logs);
  const settings = el("dl", { class: "facts wide" });
  return {
    root: el("div", {}, error, text, folded, el("h3", {}, "Settings"), settings),
    update(film) {
      error.hidden = !film.error;
      setText(error, film.error ?? "");
      const said = explanation(film);
      text.hidden = !said;
      setText(text, said);
      folded.hidden = !film.logs;
      setText(logs, film.logs ?? "");
      facts(settings, [
        ...settingsOf(film),
        ["Added", moment(film.created_at)],
        ["Ended", ended(film) ? moment(film.completed_at) : ""],
      ]);
    },
  };
}

function explanation(film) {
  const done = saved(film.saved ?? {});
  if (film.status === "canceled" || film.status === "failed") {
    if (done) return `Saved up to ${done}: try again, and it goes on from there.`;
    return film.status === "canceled" ? "Nothing of it was saved: trying again starts over." : "";
  }
  if (film.paused) return `This film waits until you resume it. ${done && `It is saved up to ${done}.`}`.trim();
  const before = film.position;
  if (!Number.isFinite(before)) return "This film is about to start.";
  return before === 0
    ? "This film is next. It starts by itself; the page may be closed."
    : `${before} ${before === 1 ? "film" : "films"} before this one. It starts by itself; the page may be closed.`;
}
