// Starts the page: connects, and shows the view that the address names.
import { unauthorized } from "./api.js";
import { announce, setText } from "./dom.js";
import { acceptDrops, addView } from "./drop.js";
import { filmView } from "./film.js";
import { folderView } from "./folders.js";
import { bytes } from "./format.js";
import { filmList } from "./queue.js";
import { setupView } from "./setup.js";
import { changed, connect, reconnected, refreshFiles, refreshMachine, state, subscribe } from "./state.js";
import { ended, label, runs } from "./status.js";
import { tokenView } from "./token.js";

const VIEWS = { add: addView, new: setupView, film: filmView, folder: folderView };
const main = document.getElementById("main");
const updateList = filmList(document.getElementById("films"));
let view = null;
let wantsToken = false;

function show(next, name) {
  view?.destroy?.();
  view = next;
  document.body.dataset.view = name;
  main.replaceChildren(view.root);
  view.update();
}

function route(moved) {
  if (!state.ready || wantsToken) return;
  const [name, query] = location.hash.slice(1).split("?");
  const known = VIEWS[name] ? name : "add";
  show(VIEWS[known](new URLSearchParams(query ?? "")), known);
  if (moved) {
    scrollTo(0, 0);
    main.querySelector("h2")?.focus({ preventScroll: true });
  }
  draw();
}

function askForToken() {
  if (wantsToken) return;
  wantsToken = true;
  const asks = tokenView(() => {
    wantsToken = false;
    view = null;
    connect();
  });
  show(asks, "token");
  asks.focus.focus();
  draw();
}

/** What the newest change did to each film, for screen readers. */
const seen = new Map();
function tellChanges() {
  for (const [id, film] of state.films) {
    const before = seen.get(id);
    seen.set(id, film.status);
    if (before === undefined || before === film.status) continue;
    announce(`${film.name}: ${runs(film) ? "started" : label(film)}`);
    if (ended(film)) refreshMachine().catch(() => {});
    if (film.status === "starting") refreshFiles().catch(() => {});
  }
}

function machine() {
  const { session, devices } = state;
  if (!session) return "";
  const names = devices.map((device) => [device.kind?.toUpperCase(), device.description].filter(Boolean).join(", ")).join(", ");
  return [names, `${bytes(session.free_disk)} free`, session.version].filter(Boolean).join(" · ");
}

/** A sentence that is read aloud, and what changes every second, which is not. */
function connection() {
  if (wantsToken) return ["", ""];
  if (!state.retryAt) return [state.updated ? "The server has another version now. Reload this page." : "", ""];
  const left = Math.max(0, Math.ceil((state.retryAt - Date.now()) / 1000));
  return ["Not connected to the server. Films go on without this page.", left ? `Trying again in ${left} s.` : "Trying again…"];
}

function drawConnection() {
  const line = document.getElementById("connection");
  const texts = connection();
  line.hidden = !texts[0];
  texts.forEach((text, i) => setText(line.children[i], text));
}

function title() {
  const running = [...state.films.values()].find(runs);
  const progress = running ? `${label(running)} ${running.name} · ` : "";
  return `${progress || (view?.title ? `${view.title} · ` : "")}Remaster`;
}

function draw() {
  if (state.ready && !view && !wantsToken) route(false);
  updateList();
  document.body.dataset.films = state.films.size > 0;
  view?.update();
  tellChanges();
  drawConnection();
  setText(document.getElementById("machine"), machine());
  document.title = title();
}

unauthorized.handler = askForToken;
// What failed for want of a connection is asked again.
reconnected.handler = () => view?.again?.();
subscribe(draw);
addEventListener("hashchange", () => route(true));
document.getElementById("skip").addEventListener("click", (event) => {
  event.preventDefault();
  main.focus();
});
acceptDrops((error) => {
  if (document.body.dataset.view !== "add") location.hash = "";
  setTimeout(() => view?.refuse?.(error));
});
setInterval(() => state.retryAt && changed(), 1000);
connect();
