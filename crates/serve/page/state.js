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

let source;
let wait = 1;
let retry = 0;
let version;

/** Connects, and again whenever the connection is lost. Without an answer of `/v1/session` it gives up only for a token. */
export async function connect() {
  clearTimeout(retry);
  source?.close();
  try {
    state.session = await get("/v1/session", { limit: 15 });
    state.models = (await get("/v1/models")).results;
  } catch (error) {
    if (!(error instanceof Problem && error.status === 401)) lost();
    return;
  }
  version ??= state.session.version;
  state.updated = version !== state.session.version;
  source = new EventSource("/v1/events");
  source.onopen = opened;
  source.onerror = lost;
  source.addEventListener("state", (event) => putFilm(JSON.parse(event.data)));
  source.addEventListener("removed", (event) => dropFilm(JSON.parse(event.data).id));
}

async function opened() {
  try {
    await Promise.all([refreshFilms(), refreshFiles(), refreshMachine()]);
  } catch {
    lost();
    return;
  }
  wait = 1;
  state.retryAt = null;
  state.ready = true;
  changed();
}

function lost() {
  source?.close();
  clearTimeout(retry);
  state.retryAt = Date.now() + wait * 1000;
  retry = setTimeout(connect, wait * 1000);
  wait = Math.min(wait * 2, 16);
  changed();
}

// A machine that slept keeps its connection without hearing anything on it. The server is asked when somebody looks, and twice a minute.
async function check() {
  if (document.hidden || !state.ready || state.retryAt) return;
  try {
    await get("/v1/session", { limit: 10 }).then((session) => {
      state.session = session;
    });
    changed();
  } catch (error) {
    if (error.status !== 401) lost();
  }
}
setInterval(check, 30_000);
document.addEventListener("visibilitychange", check);
