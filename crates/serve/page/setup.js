// A film before it starts: model and size, what they cost, and how a frame will look.
import { view } from "./address.js";
import { get, post } from "./api.js";
import { Cost } from "./cost.js";
import { button, el, filmName, problem, setProblem, setText } from "./dom.js";
import { bytes, count, duration, frames, seconds, size, timecode } from "./format.js";
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
  #known = false;
  #closed = new AbortController();
  /** The same key for every try, so that no film is started twice. */
  #idempotency = randomText();

  constructor(parameters) {
    this.media = parameters.get("media") ?? "";
    this.file = fileOf(this.media);
    this.name = this.file?.name ?? basename(this.media);
    this.title = this.name;
    this.settings = new Settings(state.models, parameters, () => this.#changed());
    this.cost = new Cost((plan, error) => this.#planned(plan, error));
    this.preview = new Preview(
      (at) => this.file && `/v1/files/${this.file.id}/picture?seconds=${at.toFixed(3)}`,
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
      this.preview.root,
      el("div", { class: "side" }, this.settings.root, this.cost.root),
      el("div", { class: "start" }, this.#startFailed, el("p", { class: "acts" }, this.#start, this.#startAll, this.#short)),
    );
    this.#probe();
    this.#changed();
  }

  update() {
    const others = this.file ? filesWithoutFilm().filter((file) => file.id !== this.file.id).length : 0;
    this.#startAll.hidden = others === 0;
    setText(this.#startAll, `Start all ${count(others + 1)} uploaded films so`);
  }

  destroy() {
    this.#closed.abort();
    this.cost.destroy();
    this.preview.destroy();
  }

  #request() {
    return { version: this.settings.model, input: this.settings.input(this.media) };
  }

  #changed() {
    if (this.#closed.signal.aborted || !this.cost) return;
    history.replaceState(null, "", view("new", { media: this.media, ...this.settings.parameters() }));
    const { version, input } = this.#request();
    this.cost.ask(version, input);
    this.preview.settingsChanged();
  }

  async #probe() {
    if (!this.file) return;
    try {
      const film = await get(`/v1/files/${this.file.id}/probe`, { signal: this.#closed.signal });
      this.#describe(film);
      this.settings.setSource(film.width, film.height, film.frames);
      this.#setFilm(film.frames, film.fps, 0);
    } catch (error) {
      if (this.#closed.signal.aborted) return;
      // There is nothing to choose for what is no film.
      setProblem(this.#failed, error);
      this.#columns.hidden = error.status === 422;
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
    const parts = [size(film.width, film.height), length, film.codec, film.frames > 1 ? sound : "", bytes(this.file.size)];
    setText(this.#facts, parts.filter(Boolean).join(" · "));
  }

  /** A film in a folder of the server is known by its plan alone. */
  #planned(plan, error) {
    this.#start.disabled = error?.status === 422;
    setText(
      this.#short,
      plan
        ? [Number.isFinite(plan.seconds) && `about ${duration(plan.seconds)}`, `${bytes(plan.memory_bytes)} of memory`]
            .filter(Boolean)
            .join(", ")
        : "",
    );
    setProblem(this.#startFailed, error);
    if (!plan || this.file) return;
    this.settings.setSource(plan.source_width, plan.source_height, plan.frames);
    const part = this.settings.values.start;
    this.#setFilm(plan.frames, plan.fps, part ? seconds(part) : 0);
    setText(this.#facts, [size(plan.source_width, plan.source_height), this.media].join(" · "));
  }

  #setFilm(...film) {
    if (this.#known) return;
    this.#known = true;
    this.preview.setFilm(...film);
  }

  async #create(media, key) {
    const film = await post(
      "/v1/predictions",
      { version: this.settings.model, input: this.settings.input(media) },
      { headers: { "Idempotency-Key": key } },
    );
    putFilm(film);
    return film;
  }

  async #begin() {
    this.#start.disabled = true;
    setProblem(this.#startFailed, null);
    try {
      const film = await this.#create(this.media, this.#idempotency);
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
    try {
      for (const file of [this.file, ...filesWithoutFilm().filter((each) => each.id !== this.file.id)]) {
        await this.#create(file.urls.get, `${this.#idempotency}-${file.id}`);
      }
      location.hash = "";
    } catch (error) {
      setProblem(this.#startFailed, error);
    }
    this.#startAll.disabled = false;
    refreshFiles().catch(() => {});
  }
}

/** Not `randomUUID`, which browsers have only on loopback and over TLS. */
function randomText() {
  return [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}
