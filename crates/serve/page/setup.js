// A film before it starts: model and size, what they cost, and how a frame will look.
import { view } from "./address.js";
import { get, post } from "./api.js";
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

  /** The address of `picture` or `probe` of the film, or null: one on another host is not here yet. */
  #look(what, words = {}) {
    if (/^https?:/i.test(this.media) && !this.file) return null;
    const [place, path] = this.file ? [`files/${this.file.id}`, {}] : ["folders", { path: this.media }];
    return `/v1/${place}/${what}?${new URLSearchParams({ ...path, ...words })}`;
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
    const address = this.#look("probe");
    if (!address) return;
    try {
      const film = await get(address, { signal: this.#closed.signal });
      this.#describe(film);
      this.settings.setSource(film.width, film.height, film.frames);
      this.preview.setFilm(film.frames, film.fps);
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
    const parts = [size(film.width, film.height), length, film.codec, film.frames > 1 ? sound : "", this.file ? bytes(this.file.size) : this.media];
    setText(this.#facts, parts.filter(Boolean).join(" · "));
  }

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
