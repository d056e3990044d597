// A film before it starts: model and size, what they cost, and how a frame will look.
import { view } from "./address.js";
import { Problem, get, isWrongInput, local, post } from "./api.js";
import { Cost } from "./cost.js";
import { button, el, filmName, problem, setProblem, setText } from "./dom.js";
import { bytes, count, duration, frames, size, timecode } from "./format.js";
import { Preview } from "./preview.js";
import { Settings } from "./settings.js";
import { fileOf, filesWithoutFilm, putFilm, refreshFiles, state } from "./state.js";

const basename = (path) => path.split(/[\\/]/).filter(Boolean).at(-1) ?? path;

export function setupView(parameters) {
  return new Setup(parameters);
}

class Setup {
  #facts = el("p", { class: "note" });
  #failed = problem();
  #startFailed = problem();
  #short = el("span", { class: "note" });
  #start = button("Start", () => this.#begin(), { class: "primary" });
  #startAll = button("", () => this.#beginAll(), { hidden: true });
  #columns = el("div", { class: "columns" });
  #closed = new AbortController();
  /** The same key for every try with the same settings, so that no film is started twice. */
  #idempotency = randomText();
  /** Uploads that were started here. */
  #started = new Set();

  constructor(parameters) {
    this.media = parameters.get("media") ?? "";
    this.file = fileOf(this.media);
    this.name = this.file?.name ?? basename(this.media);
    this.title = this.name;
    // A film on another host is fetched when it starts. Before that nothing is known of it.
    this.away = !this.file && /^https?:/i.test(this.media) && !local(this.media).startsWith("/v1/files/");
    this.settings = new Settings(state.models, parameters, () => this.#changed());
    this.cost = new Cost((plan, error) => this.#planned(plan, error));
    this.preview = new Preview(
      (at) => this.#look("picture", { seconds: at.toFixed(3) }),
      () => this.#request(),
    );
    this.root = el(
      "section",
      { class: "setup" },
      el("h2", { tabindex: "-1" }, filmName(this.name)),
      this.#facts,
      this.#failed,
      this.#columns,
    );
    this.#columns.append(
      this.away
        ? el(
            "p",
            { class: "preview stage empty" },
            "This film is fetched when it starts. What it takes and how it looks is known then.",
          )
        : this.preview.root,
      el("div", { class: "side" }, this.settings.root, this.cost.root),
      el("div", { class: "start" }, this.#startFailed, el("p", { class: "acts" }, this.#start, this.#startAll, this.#short)),
    );
    this.#probe();
    this.#changed();
  }

  update() {
    const files = this.#uploads();
    this.#startAll.hidden = files.every((file) => file === this.file);
    const which = files.length === 1 ? "the uploaded film that is left" : `all ${count(files.length)} uploaded films`;
    setText(this.#startAll, `Start ${which} with these settings`);
  }

  /** Asks again for what is not there. */
  again() {
    if (!this.#failed.hidden) this.#probe();
    this.cost.again();
    this.preview.again();
  }

  /** What `Start all` starts: this upload and those that no film was made of, but none that it started before it was stopped. */
  #uploads() {
    if (!this.file) return [];
    const others = filesWithoutFilm().filter((file) => file.id !== this.file.id && !file.error);
    return [this.file, ...others].filter((file) => !this.#started.has(file.id));
  }

  destroy() {
    this.#closed.abort();
    this.cost.destroy();
    this.preview.destroy();
  }

  /** The address of `picture` or `probe` of the film. */
  #look(what, words = {}) {
    const path = local(this.media);
    const [place, film] = path.startsWith("/v1/files/") ? [path, {}] : ["/v1/folders", { path: this.media }];
    return `${place}/${what}?${new URLSearchParams({ ...film, ...words })}`;
  }

  #request() {
    return { version: this.settings.model, input: this.settings.input(this.media) };
  }

  #changed() {
    if (this.#closed.signal.aborted || !this.cost) return;
    history.replaceState(null, "", view("new", { media: this.media, ...this.settings.parameters() }));
    // With other settings it is another job, even if the answer to the one before was lost.
    this.#idempotency = randomText();
    this.cost.root.hidden = this.away;
    if (this.away) return;
    const { version, input } = this.#request();
    this.cost.ask(version, input);
    this.preview.settingsChanged();
  }

  async #probe() {
    if (this.away) return;
    try {
      const film = await get(this.#look("probe"), { signal: this.#closed.signal });
      setProblem(this.#failed, null);
      this.#columns.hidden = false;
      this.#describe(film);
      this.settings.setSource(film.width, film.height, film.frames);
      this.preview.setFilm(film.frames, film.fps);
    } catch (error) {
      if (this.#closed.signal.aborted) return;
      // There is nothing to choose for what is no film.
      setProblem(this.#failed, error);
      this.#columns.hidden = isWrongInput(error);
    }
  }

  #describe(film) {
    const sound =
      film.audio === undefined
        ? ""
        : film.audio === 0
          ? "no sound"
          : `${film.audio} ${film.audio === 1 ? "sound track" : "sound tracks"}`;
    const length =
      film.frames > 1
        ? `${timecode(film.seconds)}, ${film.frames_estimated ? "about " : ""}${frames(film.frames)} at ${count(Math.round(film.fps * 1000) / 1000)} per second`
        : "";
    const parts = [
      size(film.width, film.height),
      length,
      film.codec,
      film.frames > 1 ? sound : "",
      this.file ? bytes(this.file.size) : this.media,
    ];
    setText(this.#facts, parts.filter(Boolean).join(" · "));
  }

  #planned(plan, error) {
    this.#start.disabled = isWrongInput(error);
    setText(
      this.#short,
      plan
        ? [Number.isFinite(plan.seconds) && `about ${duration(plan.seconds)}`, `${bytes(plan.memory_bytes)} of memory`]
            .filter(Boolean)
            .join(", ")
        : "",
    );
    setProblem(this.#startFailed, error);
  }

  /** Starts an upload, or the film of this view if it is none. */
  async #create(file) {
    const film = await post(
      "/v1/predictions",
      { version: this.settings.model, input: this.settings.input(file ? file.urls.get : this.media) },
      { headers: { "Idempotency-Key": `${this.#idempotency}-${file?.id ?? ""}` } },
    );
    putFilm(film);
    return film;
  }

  async #begin() {
    this.#start.disabled = true;
    setProblem(this.#startFailed, null);
    try {
      const film = await this.#create(this.file);
      location.hash = view("film", { id: film.id });
    } catch (error) {
      setProblem(this.#startFailed, error);
      this.#start.disabled = false;
      this.#start.focus();
    }
  }

  async #beginAll() {
    this.#startAll.disabled = true;
    setProblem(this.#startFailed, null);
    const files = this.#uploads();
    try {
      while (files.length) {
        await this.#create(files[0]);
        this.#started.add(files.shift().id);
      }
      location.hash = "";
    } catch (error) {
      setProblem(this.#startFailed, new Problem(`${files[0].name}: ${error.message}`));
      this.update();
    }
    this.#startAll.disabled = false;
    refreshFiles().catch(() => {});
  }
}

/** Not `randomUUID`, which browsers have only on loopback and over TLS. */
function randomText() {
  return [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}
