// How a film is doing, in words.
import { bytes, clock, count, duration, endsAt, frames, percent, rate } from "./format.js";

const PHASES = {
  load: "Loading the model",
  scan: "Finding shots",
  encode: "Encoding",
  restore: "Restoring",
  decode: "Decoding",
  finish: "Writing the film",
};

export const modelOf = (film) => (film.model ?? "").replace(/^remaster\//, "");
export const ended = (film) => ["succeeded", "failed", "canceled"].includes(film.status);
export const waits = (film) => film.status === "starting";
export const runs = (film) => film.status === "processing";

/** One or two words. */
export function label(film) {
  if (film.status === "succeeded") return "Done";
  if (film.status === "failed") return "Failed";
  if (film.status === "canceled") return "Canceled";
  if (film.paused) return "Paused";
  if (runs(film)) return film.progress?.share == null ? "Running" : percent(film.progress.share);
  if (!Number.isFinite(film.position)) return "Starting";
  return film.position === 0 ? "Next" : `${ordinal(film.position + 1)} in line`;
}

function ordinal(n) {
  const ending = n % 100 > 10 && n % 100 < 14 ? "th" : ({ 1: "st", 2: "nd", 3: "rd" }[n % 10] ?? "th");
  return `${count(n)}${ending}`;
}

/** What is done of the phase at work: `Restoring, 120 of 1,440`. */
export function work({ phase, done, total }) {
  const name = PHASES[phase] ?? phase ?? "Running";
  return Number.isFinite(done) ? `${name}, ${total ? `${count(done)} of ${count(total)}` : count(done)}` : name;
}

/** How much of a film would not be lost: `0:31 of 1:02`; empty if nothing is saved. */
export function saved({ frames: done, of, seconds, of_seconds: all } = {}) {
  if (!(done > 0)) return "";
  if (Number.isFinite(seconds) && Number.isFinite(all)) return `${clock(seconds)} of ${clock(all)}`;
  return Number.isFinite(of) ? `frame ${count(done)} of ${count(of)}` : `frame ${count(done)}`;
}

/** What is saved of a film that runs. */
function savedNow({ saved: frames, saved_seconds: seconds, total } = {}) {
  return saved({ frames, of: total, seconds, of_seconds: frames > 0 ? (seconds * Math.max(total, frames)) / frames : null });
}

/** The numbers of a film that runs, as pairs for a list of facts. */
export function numbers(film) {
  const { frames_per_second: fps, eta_seconds: left, memory_bytes: memory, planned_bytes: planned } = film.progress ?? {};
  const number = Number.isFinite;
  return [
    ["Work", `${work(film.progress ?? {})}${film.progress?.total ? " frames" : ""}`],
    ["Time left", film.paused ? "paused" : number(left) ? `${duration(left)}, until ${endsAt(left)}` : "not known yet"],
    ["Speed", film.paused ? "" : number(fps) ? `${rate(fps)} frames per second` : "not known yet"],
    ["Saved", savedNow(film.progress ?? {}) && `up to ${savedNow(film.progress ?? {})}`],
    [
      "Memory",
      number(memory)
        ? `${bytes(memory)}${number(planned) ? ` of ${bytes(planned)} planned` : ""}`
        : number(planned)
          ? `${bytes(planned)} planned`
          : "",
    ],
    ["Running for", film.started_at ? duration((Date.now() - new Date(film.started_at)) / 1000) : ""],
  ];
}

/** One line for the list. */
export function line(film) {
  const model = modelOf(film);
  if (film.status === "failed") return film.error ?? "Failed.";
  if (film.status === "succeeded") {
    const took = film.metrics?.predict_time;
    return [model, film.metrics?.frames && frames(film.metrics.frames), took && duration(took)].filter(Boolean).join(" · ");
  }
  if (!runs(film) || !film.progress) return model;
  const { frames_per_second: fps, eta_seconds: left } = film.progress;
  const more = film.paused ? [] : [Number.isFinite(fps) && `${rate(fps)} fps`, Number.isFinite(left) && `${duration(left)} left`];
  return [work(film.progress), ...more].filter(Boolean).join(" · ");
}
