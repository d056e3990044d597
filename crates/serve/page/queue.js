// The list of films: uploads, films to set up, the queue, and what is finished.
import { actionButtons, canMove, move, queue } from "./actions.js";
import { view } from "./address.js";
import { remove } from "./api.js";
import { button, el, filmName, problem, setProblem, setText, sync } from "./dom.js";
import { bytes, count, duration } from "./format.js";
import { filesWithoutFilm, refreshFiles, state } from "./state.js";
import { ended, label, line, runs, waits } from "./status.js";
import { cancelUpload, retryUpload, stalled } from "./upload.js";

const FINISHED_AT_FIRST = 30;
let finishedShown = FINISHED_AT_FIRST;

export function filmList(root) {
  const sections = {
    uploads: section("Uploading", "uploads"),
    ready: section("Not started", "ready"),
    queue: section("Queue", "queue"),
    finished: section("Finished", "finished"),
  };
  const more = button(
    "",
    () => {
      finishedShown = Infinity;
      update();
    },
    { class: "small" },
  );
  const empty = el("p", { class: "note" }, "No films yet.");
  const heading = el("h2", { tabindex: "-1" }, "Films");
  root.append(
    el("div", { class: "head" }, heading, el("a", { href: "#", class: "button small" }, "Add film")),
    empty,
    ...Object.values(sections).map((each) => each.root),
    more,
  );
  sections.queue.list.addEventListener("keydown", moveByKey);

  function update() {
    const held = root.contains(document.activeElement) && document.activeElement.closest("li")?.dataset.key;
    fillAll();
    // A row that went to another section, or is gone, takes the focus with it.
    if (held && !root.contains(document.activeElement))
      (root.querySelector(`li[data-key="${CSS.escape(held)}"] a`) ?? heading).focus();
  }

  function fillAll() {
    const films = [...state.films.values()];
    const inLine = queue();
    const active = [...films.filter(runs), ...films.filter((film) => waits(film) && !canMove(film)), ...inLine];
    const finished = films.filter(ended);
    const ready = filesWithoutFilm();
    const selected = new URLSearchParams(location.hash.split("?")[1] ?? "");
    fill(sections.uploads, state.uploads, (upload) => upload.id, uploadRow, updateUpload);
    fill(
      sections.ready,
      ready,
      (file) => file.id,
      fileRow,
      (row, file) => mark(row, selected.get("media") === file.urls.get),
    );
    fill(
      sections.queue,
      active,
      (film) => film.id,
      filmRow,
      (row, film) => updateFilm(row, film, selected, inLine.length - 1),
    );
    fill(
      sections.finished,
      finished.slice(0, finishedShown),
      (film) => film.id,
      filmRow,
      (row, film) => updateFilm(row, film, selected, inLine.length - 1),
    );
    more.hidden = finished.length <= finishedShown;
    setText(more, `Show all ${count(finished.length)}`);
    empty.hidden = films.length + ready.length + state.uploads.length > 0;
  }
  return update;
}

function section(title, name) {
  const list = el("ul", { class: "rows" });
  return { root: el("section", { class: name, hidden: true }, el("h3", {}, title), list), list };
}

function fill({ root, list }, items, ...how) {
  root.hidden = items.length === 0;
  sync(list, items, ...how);
}

function mark(row, selected) {
  const link = row.querySelector("a");
  if (selected) link.setAttribute("aria-current", "page");
  else link.removeAttribute("aria-current");
}

/** Alt with an arrow key moves the film that has the focus. */
function moveByKey(event) {
  const by = { ArrowUp: -1, ArrowDown: 1 }[event.key];
  const row = event.target.closest("li");
  if (!by || !event.altKey || !row) return;
  event.preventDefault();
  row.parts.move(by);
}

function uploadRow(upload) {
  const parts = {
    bar: el("progress", { max: "1", "aria-label": `Upload of ${upload.file.name}` }),
    text: el("span", { class: "note" }),
    failed: problem(),
  };
  const again = button("Try again", () => retryUpload(upload), {
    class: "small",
    "aria-label": `Try again to upload ${upload.file.name}`,
  });
  const cancel = button("Cancel", () => cancelUpload(upload), { class: "small" });
  const row = el(
    "li",
    {},
    el("div", { class: "top" }, filmName(upload.file.name)),
    parts.bar,
    el("div", { class: "under" }, parts.text, el("span", { class: "acts" }, again, cancel)),
    parts.failed,
  );
  row.parts = { ...parts, again, cancel };
  return row;
}

function updateUpload(row, upload) {
  const { size } = upload.file;
  const { bar, text, failed, again, cancel } = row.parts;
  bar.hidden = Boolean(upload.problem);
  // The button that was pressed gives its focus to the one that stays.
  if (!upload.problem && document.activeElement === again) cancel.focus();
  again.hidden = !upload.problem;
  const word = upload.problem ? "Dismiss" : "Cancel";
  setText(cancel, word);
  cancel.setAttribute("aria-label", `${word} the upload of ${upload.file.name}`);
  bar.value = size ? upload.sent / size : 0;
  setProblem(failed, upload.problem);
  const rate = upload.rate ? [`${bytes(upload.rate)}/s`, `${duration((size - upload.sent) / upload.rate)} left`] : [];
  const still = stalled(upload);
  const left = still ? [`nothing was sent for ${duration(still)}`] : rate;
  const sent = `${bytes(upload.sent)} of ${bytes(size)}`;
  if (upload.problem) setText(text, bytes(size));
  else if (!upload.request) setText(text, `${bytes(size)}, waits for its turn`);
  else if (upload.sent >= size) setText(text, `${sent}, the server checks it`);
  else setText(text, [sent, ...left, "keep this page open"].join(" · "));
}

function fileRow(file) {
  const failed = problem();
  setProblem(failed, file.error && { message: file.error });
  const href = view("new", { media: file.urls.get });
  const drop = button(
    "Remove",
    () =>
      remove(`/v1/files/${file.id}`)
        .then(refreshFiles)
        .catch((error) => setProblem(failed, error)),
    { class: "small", "aria-label": `Remove ${file.name}` },
  );
  return el(
    "li",
    {},
    el("div", { class: "top" }, el("a", { href: file.error ? null : href }, filmName(file.name))),
    el("div", { class: "under" }, el("span", { class: "note" }, bytes(file.size)), el("span", { class: "acts" }, drop)),
    failed,
  );
}

function filmRow(film) {
  let now = film;
  const failed = problem();
  const parts = {
    state: el("span", { class: "state" }),
    bar: el("progress", { max: "1", "aria-label": `Progress of ${film.name}` }),
    text: el("span", { class: "note" }),
  };
  const buttons = actionButtons(() => now, failed, { class: "small" });
  const shift = (by) => buttons.run((which) => move(which, by));
  const up = button("↑", () => shift(-1), { class: "small", title: "Move up (Alt+↑)", "aria-label": `Move ${film.name} up` });
  const down = button("↓", () => shift(1), {
    class: "small",
    title: "Move down (Alt+↓)",
    "aria-label": `Move ${film.name} down`,
  });
  buttons.box.prepend(up, down);
  const row = el(
    "li",
    {},
    el("div", { class: "top" }, el("a", { href: view("film", { id: film.id }) }, filmName(film.name)), parts.state),
    parts.bar,
    el("div", { class: "under" }, parts.text, buttons.box),
    failed,
  );
  row.parts = {
    ...parts,
    buttons,
    up,
    down,
    move: shift,
    set: (next) => {
      now = next;
    },
  };
  return row;
}

/** `last` is the place of the last film that waits. */
function updateFilm(row, film, selected, last) {
  const { state: word, bar, text, buttons, up, down, set } = row.parts;
  set(film);
  row.dataset.status = film.paused ? "paused" : film.status;
  mark(row, selected.get("id") === film.id);
  setText(word, label(film));
  const share = runs(film) ? film.progress?.share : null;
  bar.hidden = !Number.isFinite(share);
  if (!bar.hidden) bar.value = share;
  setText(text, line(film));
  buttons.update(film);
  up.hidden = down.hidden = !canMove(film) || last < 1;
  const focused = document.activeElement;
  up.disabled = film.position === 0;
  down.disabled = film.position === last;
  if (focused === up && up.disabled) down.focus();
  if (focused === down && down.disabled) up.focus();
}
