// What a film will cost, asked of the server whenever a setting changes.
import { post } from "./api.js";
import { el, facts, sync } from "./dom.js";
import { bytes, count, duration, endsAt, frames, size } from "./format.js";
import { state } from "./state.js";

const QUIET = 300;
const BASIS = { calibrated: "from a quick measurement", recorded: "from earlier runs" };

export class Cost {
  #list = el("dl", { class: "facts" });
  #notes = el("ul", { class: "notes" });
  #timer = 0;
  #asking = new AbortController();
  #asked = [];
  #failed = false;

  /** `answered(plan, null)` or `answered(null, error)` is called with every answer. */
  constructor(answered) {
    this.answered = answered;
    this.root = el("section", { class: "cost", "aria-label": "Cost" }, el("h3", {}, "What it takes"), this.#list, this.#notes);
  }

  /** Asks soon; an older question is dropped. */
  ask(version, input) {
    this.destroy();
    this.#asked = [version, input];
    this.#failed = false;
    this.#asking = new AbortController();
    this.root.setAttribute("aria-busy", "true");
    if (!this.#list.firstChild)
      facts(this.#list, [
        ["Time", "…"],
        ["Memory", "…"],
        ["Disk", "…"],
      ]);
    const { signal } = this.#asking;
    this.#timer = setTimeout(async () => {
      let plan = null;
      let error = null;
      try {
        plan = await post("/v1/plans", { version, input }, { signal, limit: 120 });
      } catch (reason) {
        error = reason;
      }
      if (signal.aborted) return;
      this.root.removeAttribute("aria-busy");
      this.#failed = !plan;
      this.#show(plan);
      this.answered(plan, error);
    }, QUIET);
  }

  /** Asks the same, if there was no answer. */
  again() {
    if (this.#failed) this.ask(...this.#asked);
  }

  destroy() {
    clearTimeout(this.#timer);
    this.#asking.abort();
  }

  #show(plan) {
    facts(this.#list, plan ? costs(plan) : []);
    sync(
      this.#notes,
      plan?.notes ?? [],
      (note) => note,
      (note) => el("li", {}, note),
      () => {},
    );
  }
}

function costs(plan) {
  const about = plan.frames_estimated ? "about " : "";
  const free = state.session?.free_disk;
  const whole = state.devices.find((device) => device.name === plan.device)?.memory_bytes;
  const gpu = plan.device_bytes && !plan.device?.startsWith("cpu");
  return [
    [
      "Time",
      Number.isFinite(plan.seconds)
        ? [`about ${duration(plan.seconds)}, until ${endsAt(plan.seconds)}`, BASIS[plan.basis]].filter(Boolean).join(", ")
        : "not known yet on this machine",
    ],
    ["Memory", `${bytes(plan.memory_bytes)}${!gpu && whole ? ` of ${bytes(whole)}` : ""}`],
    ["On the card", gpu ? `${bytes(plan.device_bytes)}${whole ? ` of ${bytes(whole)}` : ""}` : ""],
    ["Disk", plan.disk_bytes ? `${bytes(plan.disk_bytes)} of ${bytes(free)} free` : `the result alone, ${bytes(free)} free`],
    ["Result", `${size(plan.width, plan.height)} from ${size(plan.source_width, plan.source_height)}`],
    ["Length", `${about}${frames(plan.frames)}${plan.fps ? ` at ${count(Math.round(plan.fps * 1000) / 1000)} per second` : ""}`],
    ["Runs on", [plan.device, plan.dtype].filter(Boolean).join(", ")],
  ];
}
