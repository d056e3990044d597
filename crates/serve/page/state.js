// What the server says: films, files, models, devices. The page keeps nothing of its own but uploads that are under way.
import { Problem, all, get, local } from "./api.js";

export const state = {
  session: null,
  models: [],
  devices: [],
  /** Predictions by id, newest first. */
  films: new Map(),
  /** Uploaded files by id. */
  files: new Map(),
  uploads: [],
  ready: false,
  /** Null while connected, else when the next try starts, in milliseconds. */
  retryAt: null,
};

const listeners = new Set();
let planned = 0;

/** Calls `listener` soon after every change; returns what ends that. */
export function subscribe(listener) {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

/** Changes come in bursts and are drawn at most ten times a second. A timer also runs in a tab that nobody sees, for its title. */
export function changed() {
  planned ||= setTimeout(() => {
    planned = 0;
    for (const listener of [...listeners]) listener();
  }, 100);
}

export function putFilm(film) {
  if (!film?.id) return;
  touched.add(film.id);
  const known = state.films.get(film.id);
  if ((known?.status === "starting") !== (film.status === "starting")) refreshSoon();
  if (known || state.films.size === 0) state.films.set(film.id, film);
  else state.films = new Map([[film.id, film], ...state.films]);
  changed();
}

export function dropFilm(id) {
  touched.add(id);
  state.films.delete(id);
  changed();
}

/** Films that changed while the whole list was on its way: the list is older than what is known of them. */
const touched = new Set();

let refreshing = 0;

/** A film that joins or leaves the queue changes the places of others, of which the server says nothing. */
function refreshSoon() {
  refreshing ||= setTimeout(() => {
    refreshing = 0;
    refreshFilms().then(changed, () => {});
  }, 300);
}

async function refreshFilms() {
  touched.clear();
  const list = await all("/v1/predictions");
  const known = state.films;
  state.films = new Map();
  for (const [id, film] of known) if (touched.has(id) && !list.some((entry) => entry.id === id)) state.films.set(id, film);
  for (const film of list) {
    if (!touched.has(film.id)) state.films.set(film.id, film);
    else if (known.has(film.id)) state.films.set(film.id, known.get(film.id));
  }
}

export async function refreshFiles() {
  const list = await all("/v1/files");
  state.files = new Map(list.map((file) => [file.id, file]));
  changed();
}

/** What the disk has free, above all. */
export async function refreshSession() {
  state.session = await get("/v1/session", { limit: 10 });
  changed();
}

export async function refreshMachine() {
  const [session, devices] = await Promise.all([get("/v1/session"), get("/v1/devices")]);
  state.session = session;
  state.devices = devices.results;
  changed();
}

/** The uploaded file that is the input of a film, if it is one. */
export function fileOf(media) {
  if (!media || (media.startsWith("/") && !media.startsWith("/v1/files/"))) return undefined;
  return [...state.files.values()].find((file) => local(file.urls.get) === local(media));
}

/** Uploaded files that no film was made of. */
export function filesWithoutFilm() {
  const used = new Set([...state.films.values()].map((film) => film.input?.media && local(film.input.media)));
  return [...state.files.values()].filter((file) => !used.has(local(file.urls.get)));
}

/** The longest silence of the stream: every 15 seconds the server says that it is alive. */
const SILENCE = 45_000;

/** After this a tab that nobody sees gives its stream up. */
const UNSEEN = 60_000;

/** Called when the connection is there again. */
export const reconnected = { handler: () => {} };

/** Null while there is no connection, and while nobody sees the page. */
let source = null;
let heard = 0;
let unseenSince = document.hidden ? Date.now() : null;
let turn = 0;
let wait = 1;
let retry = 0;
let version;

/** Connects, and again whenever the connection is lost. Without an answer of `/v1/session` it gives up only for a token. */
export async function connect() {
  turn += 1;
  const mine = turn;
  clearTimeout(retry);
  source?.close();
  source = null;
  try {
    const session = await get("/v1/session", { limit: 15 });
    const models = await get("/v1/models");
    if (mine !== turn) return;
    state.session = session;
    state.models = models.results;
  } catch (error) {
    if (mine === turn && !(error instanceof Problem && error.status === 401)) lost();
    return;
  }
  version ??= state.session.version;
  state.updated = version !== state.session.version;
  heard = Date.now();
  source = new EventSource("/v1/events");
  source.onerror = lost;
  const hears = (name, act) =>
    source.addEventListener(name, (event) => {
      heard = Date.now();
      act(event);
    });
  hears("open", opened);
  hears("alive", () => {});
  hears("state", (event) => putFilm(JSON.parse(event.data)));
  hears("removed", (event) => dropFilm(JSON.parse(event.data).id));
}

async function opened() {
  const mine = turn;
  try {
    await Promise.all([refreshFilms(), refreshFiles(), refreshMachine()]);
  } catch {
    if (mine === turn) lost();
    return;
  }
  if (mine !== turn) return;
  wait = 1;
  state.retryAt = null;
  state.ready = true;
  reconnected.handler();
  changed();
}

function lost() {
  turn += 1;
  source?.close();
  source = null;
  clearTimeout(retry);
  state.retryAt = Date.now() + wait * 1000;
  retry = setTimeout(connect, wait * 1000);
  wait = Math.min(wait * 2, 16);
  changed();
}

/** When somebody looks, and twice a minute. A machine that slept keeps its connection without hearing anything on it. */
async function check() {
  if (!state.ready || state.retryAt) return;
  // A browser opens six connections to a host, for all tabs together: a seventh stream would keep every request waiting.
  const unseen = unseenSince !== null && Date.now() - unseenSince >= UNSEEN;
  if (unseen) {
    source?.close();
    source = null;
  } else if (!source) {
    connect();
    return;
  } else if (Date.now() - heard > SILENCE) {
    lost();
    return;
  }
  try {
    // The title of a tab tells how films are doing.
    if (unseen) await refreshFilms().then(changed);
    else if (!document.hidden) await refreshSession();
  } catch (error) {
    if (error.status !== 401) lost();
  }
}
setInterval(check, 30_000);
document.addEventListener("visibilitychange", () => {
  unseenSince = document.hidden ? Date.now() : null;
  check();
});
