// What one can do with a film, as buttons. A refusal is shown beside them.
import { filmPath } from "./address.js";
import { local, post, remove } from "./api.js";
import { announce, button, el, filmName, setProblem } from "./dom.js";
import { dropFilm, fileOf, putFilm, refreshMachine, state } from "./state.js";
import { ended, saved, waits } from "./status.js";

const ask = (verb) => async (film) => putFilm(await post(filmPath(film, `/${verb}`)));

export const ACTIONS = [
  { name: "pause", text: "Pause", act: ask("pause"), fits: (film) => !ended(film) && !film.paused },
  { name: "resume", text: "Resume", act: ask("resume"), fits: (film) => !ended(film) && film.paused },
  { name: "retry", text: "Try again", act: ask("retry"), fits: (film) => ["failed", "canceled"].includes(film.status) },
  { name: "cancel", text: "Cancel", act: ask("cancel"), fits: (film) => !ended(film) },
  { name: "remove", text: "Remove", act: removeFilm, fits: ended },
];

export const canMove = (film) => waits(film) && Number.isFinite(film.position);

/** Films that wait, in the order of the queue. */
export const queue = () => [...state.films.values()].filter(canMove).sort((a, b) => a.position - b.position);

export async function move(film, by) {
  const last = queue().length - 1;
  const position = Math.min(last, Math.max(0, film.position + by));
  if (position === film.position) return;
  putFilm(await post(filmPath(film, "/move"), { position }));
  announce(`${film.name} is now at place ${position + 1} of ${last + 1}`);
}

/** With a result goes its upload, unless another film is made of it. The upload of a film without one can be started again. */
async function removeFilm(film) {
  const done = film.status === "succeeded";
  const begun = done || Boolean(film.started_at);
  const media = (each) => each.input?.media && local(each.input.media);
  const shared = [...state.films.values()].some((other) => other.id !== film.id && media(other) === media(film));
  const upload = done && !shared ? fileOf(film.input?.media) : null;
  if (begun && !(await confirmed(film, upload))) return;
  await remove(filmPath(film));
  dropFilm(film.id);
  if (upload) await remove(`/v1/files/${upload.id}`);
  if (upload) state.files.delete(upload.id);
  announce(`${film.name} is removed`);
  refreshMachine().catch(() => {});
}

/** Nothing that took hours is deleted with one click. */
function confirmed(film, upload) {
  const lost = saved(film.saved ?? {});
  const question =
    film.status === "succeeded"
      ? [
          "Delete ",
          filmName(film.output_name ?? film.name),
          ...(upload ? [" and the upload ", filmName(upload.name)] : []),
          " from the server’s disk?",
        ]
      : ["Remove ", filmName(film.name), lost ? `? What is saved of it, ${lost}, is deleted, too.` : "? Nothing of it is saved."];
  const answer = el(
    "dialog",
    { "aria-labelledby": "ask" },
    el("p", { id: "ask" }, ...question),
    el(
      "form",
      { method: "dialog", class: "acts" },
      el("button", { value: "yes", class: "bad" }, "Delete"),
      el("button", { value: "no", autofocus: true }, "Keep"),
    ),
  );
  document.body.append(answer);
  answer.showModal();
  return new Promise((resolve) => {
    answer.addEventListener("close", () => {
      answer.remove();
      resolve(answer.returnValue === "yes");
    });
  });
}

/** Buttons for a film. `current()` is the film as it is now; `failed` shows a refusal. */
export function actionButtons(current, failed, attributes = {}) {
  const buttons = ACTIONS.map((action) => button(action.text, () => run(action.act), { ...attributes, "data-act": action.name }));
  const box = el("span", { class: "acts" }, ...buttons);

  async function run(act) {
    setProblem(failed, null);
    try {
      await act(current());
    } catch (error) {
      setProblem(failed, error);
    }
  }

  /** A button that is not there any more gives its focus to the one that took its place. */
  function update(film) {
    const focused = buttons.includes(document.activeElement);
    ACTIONS.forEach((action, i) => {
      buttons[i].hidden = !action.fits(film);
      buttons[i].setAttribute("aria-label", `${action.text} ${film.name}`);
    });
    if (focused && document.activeElement.hidden) buttons.find((each) => !each.hidden)?.focus();
  }
  return { box, update, run };
}
