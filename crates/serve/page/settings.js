// What one can choose for a film: controls, and the `input` of a request. Only what differs from the server's defaults is sent.
import { button, copyable, el } from "./dom.js";
import { bytes } from "./format.js";

const SIZES = { 720: "720p", 1080: "1080p", 1440: "1440p", 2160: "2160p", "1x": "Same", "2x": "2×", "4x": "4×" };

/** `networks: true` are those of the SeedVR2 networks; an upscaler refuses them. */
const MORE = [
  {
    name: "color",
    label: "Colour",
    note: "How colours are matched to the film.",
    options: {
      "": "Default",
      lab: "lab",
      wavelet: "wavelet",
      wavelet_adaptive: "wavelet, adaptive",
      hsv: "hsv",
      adain: "adain",
      none: "Not matched",
    },
  },
  { name: "strength", label: "Strength", range: 1, note: "Below 1, some of the resized film is mixed in." },
  { name: "softness", label: "Softness", range: 0, note: "For old upscales that are blurrier than their size." },
  {
    name: "deinterlace",
    label: "Deinterlace",
    options: { "": "If needed", on: "Always", double: "To double rate", ivtc: "Undo telecine", off: "Never" },
  },
  { name: "start", label: "From", placeholder: "0:00", note: "A part of the film: 90 or 1:30.5." },
  { name: "end", label: "To", placeholder: "end" },
  {
    name: "output_format",
    label: "Format",
    options: {
      "": "Default",
      mkv: "mkv",
      "mkv lossless": "mkv, lossless",
      mp4: "mp4",
      mov: "mov",
      webm: "webm",
      png: "png",
      jpg: "jpg",
      webp: "webp",
      tiff: "tiff",
    },
  },
  { name: "seed", label: "Seed", number: true, placeholder: "42", networks: true, note: "Another seed gives other details." },
];

/** Settings of programs. The page cannot choose them, and keeps those of a film that is restored again. */
const CARRIED = {
  output_quality: "quality",
  fps: "frames per second",
  audio: "sound",
  hdr: "HDR",
  window: "window",
  damaged: "damaged parts",
};

const PICTURES = ["png", "jpg", "webp", "tiff"];
const NUMBERS = ["strength", "softness", "seed"];
export const NAMES = ["resolution", ...MORE.map((field) => field.name), ...Object.keys(CARRIED)];

export class Settings {
  /** `given` are parameters of the address; `changed()` is called after every change. */
  constructor(models, given, changed) {
    this.models = models;
    this.values = Object.fromEntries(NAMES.map((name) => [name, given.get(name) ?? ""]));
    this.values.model = given.get("model") || usualModel(models);
    this.changed = changed;
    this.more = el(
      "details",
      { class: "more", open: MORE.some(({ name }) => this.values[name]) },
      el("summary", {}, "More settings"),
      el("div", { class: "fields" }, ...MORE.map((field) => this.#field(field))),
    );
    this.root = el("div", {}, this.#modelChoice(), this.#sizeChoice(), this.more, this.#carried());
    this.#refuseForUpscalers();
  }

  /** Sizes and formats follow from the film: what is larger than 1080 lines keeps its size, and a picture stays one. */
  setSource(width, height, frames) {
    const picture = frames === 1;
    for (const option of this.more.querySelectorAll('[name="output_format"] option')) {
      if (option.value && PICTURES.includes(option.value) !== picture) option.remove();
    }
    if (this.values.resolution) return;
    this.#setSize(Math.min(width, height) > 1080 ? "1x" : "1080");
  }

  get model() {
    return this.values.model;
  }

  /** The `input` of a request. */
  input(media) {
    const input = { media };
    for (const name of NAMES) {
      const value = this.values[name];
      if (!value || this.#withoutEffect(name)) continue;
      input[name] = NUMBERS.includes(name) ? Number(value) : value;
    }
    if (input.output_format?.endsWith(" lossless")) Object.assign(input, { output_format: "mkv", lossless: true });
    return input;
  }

  /** For the address of the page. */
  parameters() {
    return Object.fromEntries(Object.entries(this.values).filter(([, value]) => value));
  }

  #set(name, value) {
    this.values[name] = value;
    if (name === "model") this.#refuseForUpscalers();
    this.changed();
  }

  #carried() {
    const there = Object.entries(CARRIED).filter(([name]) => this.values[name]);
    if (!there.length) return null;
    const row = el(
      "p",
      { class: "note" },
      `Also as before: ${there.map(([name, word]) => `${word} ${this.values[name]}`).join(", ")}. `,
      button(
        "Leave out",
        () => {
          for (const [name] of there) this.values[name] = "";
          row.remove();
          this.changed();
        },
        { class: "small" },
      ),
    );
    return row;
  }

  #withoutEffect(name) {
    // What is not offered, as `identity`, has none of these settings either.
    const chosen = this.models.find((model) => model.name === this.values.model);
    return chosen?.kind !== "seedvr2" && MORE.some((field) => field.name === name && field.networks);
  }

  #refuseForUpscalers() {
    for (const { name, networks } of MORE)
      if (networks) this.more.querySelector(`[name="${name}"]`).disabled = this.#withoutEffect(name);
  }

  #modelChoice() {
    const absent = this.models.filter((model) => !model.installed);
    const present = this.models.filter((model) => model.installed);
    return el(
      "fieldset",
      { class: "models" },
      el("legend", {}, "Model"),
      ...present.map((model) => this.#modelRow(model)),
      present.length ? null : el("p", { class: "note" }, "No model is installed."),
      absent.length
        ? el("details", {}, el("summary", {}, `${absent.length} more, not installed`), ...absent.map(absentRow))
        : null,
    );
  }

  #modelRow(model) {
    const radio = el("input", {
      type: "radio",
      name: "model",
      value: model.name,
      checked: model.name === this.values.model,
      onchange: () => this.#set("model", model.name),
    });
    return el(
      "label",
      { class: "choice" },
      radio,
      el("span", {}, el("b", {}, model.name), " ", el("span", { class: "note" }, model.description)),
    );
  }

  #sizeChoice() {
    const other = el("input", {
      type: "text",
      placeholder: "640x480",
      autocomplete: "off",
      spellcheck: "false",
      "aria-label": "Other size",
      oninput: () => this.#setSize(other.value.trim()),
    });
    const choice = ([value, text]) =>
      button(
        text,
        () => {
          other.value = "";
          this.#setSize(value);
        },
        { "data-size": value },
      );
    this.sizes = el(
      "fieldset",
      {},
      el("legend", {}, "Size"),
      el("div", { class: "sizes" }, ...Object.entries(SIZES).map(choice), other),
    );
    if (!SIZES[this.values.resolution]) other.value = this.values.resolution;
    this.#markSize();
    return this.sizes;
  }

  #setSize(value) {
    this.#set("resolution", value);
    this.#markSize();
  }

  #markSize() {
    for (const each of this.sizes.querySelectorAll("button"))
      each.setAttribute("aria-pressed", each.dataset.size === this.values.resolution);
  }

  #field(field) {
    const id = `set-${field.name}`;
    const note = field.note && el("span", { class: "note", id: `${id}-note` }, field.note);
    const common = { id, name: field.name, "aria-describedby": note && `${id}-note` };
    const control = this.#control(field, common);
    return el("div", { class: "field" }, el("label", { for: id }, field.label), control, note);
  }

  #control(field, common) {
    const value = this.values[field.name];
    const set = (text) => this.#set(field.name, text);
    if (field.options) {
      const options = Object.entries(field.options).map(([each, text]) =>
        el("option", { value: each, selected: each === value }, text),
      );
      return el("select", { ...common, onchange: (event) => set(event.target.value) }, ...options);
    }
    if (field.range !== undefined) {
      const reading = el("output", { for: common.id }, Number(value || field.range).toFixed(2));
      const range = el("input", {
        ...common,
        type: "range",
        min: "0",
        max: "1",
        step: "0.05",
        value: value || field.range,
        oninput: () => {
          reading.textContent = Number(range.value).toFixed(2);
          set(Number(range.value) === field.range ? "" : range.value);
        },
      });
      return el("span", { class: "ranged" }, range, reading);
    }
    const type = field.number ? { type: "number", min: "0", inputmode: "numeric" } : { type: "text", autocomplete: "off" };
    return el("input", {
      ...common,
      ...type,
      value,
      placeholder: field.placeholder,
      oninput: (event) => set(event.target.value.trim()),
    });
  }
}

function absentRow(model) {
  const download = model.size_bytes ? ` ${bytes(model.size_bytes)} to download.` : "";
  return el(
    "div",
    { class: "choice absent" },
    el(
      "span",
      {},
      el("b", {}, model.name),
      " ",
      el("span", { class: "note" }, `${model.description}${download}`),
      model.pull && el("span", { class: "command" }, copyable(model.pull, "the command")),
    ),
  );
}

/** The default of the command line if it is installed, else the first of its kind, else what is there. */
function usualModel(models) {
  const there = models.filter((model) => model.installed);
  return (
    (there.find((model) => model.name === "3b") ?? there.find((model) => model.kind === "seedvr2") ?? there[0])?.name ?? "3b"
  );
}
