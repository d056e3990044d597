// Requests to the server, and its answers when it refuses.

/** Why a request failed, in the server's words. `status` is 0 if there was no answer. */
export class Problem extends Error {
  constructor(detail, status = 0, kind = "") {
    super(detail);
    this.status = status;
    this.kind = kind;
  }
}

const SILENT = "The server does not answer. Check that `remaster serve` is running.";

/** Called when the server wants a token. */
export const unauthorized = { handler: () => {} };

/**
 * The same place on the host that this page came from: `localhost` and `127.0.0.1` are two origins. What is no address stays as it
 * is: the media of a film may be any text.
 */
export function local(url) {
  try {
    const { pathname, search } = new URL(url, location.href);
    return pathname + search;
  } catch {
    return url;
  }
}

async function refusal(response) {
  const text = await response.text().catch(() => "");
  let document = {};
  try {
    document = JSON.parse(text);
  } catch {
    /* an answer of something between us and the server */
  }
  if (response.status === 401) unauthorized.handler();
  return new Problem(sentence(document, response.status), response.status, document.kind ?? "");
}

/** Kinds of refusals that say nothing of the film or the settings: the same request may succeed later. */
const PASSING = ["too-slow", "crashed", "interrupted", "internal", "input-output", "ffmpeg-stalled", "device-failed"];

/** Whether the film or a setting cannot be used. */
export const isWrongInput = (error) => error?.status === 422 && !PASSING.includes(error.kind);

/** What to show for a refusal. */
export const sentence = (document, status) =>
  document.detail || document.title || `The server answered with status ${status}. Its log says more.`;

async function answer(method, path, { body, signal, headers = {}, limit = 60 } = {}) {
  const signals = [signal, limit && AbortSignal.timeout(limit * 1000)].filter(Boolean);
  const options = { method, headers: { ...headers }, signal: AbortSignal.any(signals), cache: "no-store" };
  // Without this header the server refuses every change: a form of a foreign page cannot send it.
  if (method !== "GET") options.headers["X-Remaster"] = "1";
  if (body !== undefined) {
    options.headers["Content-Type"] = "application/json";
    options.body = JSON.stringify(body);
  }
  let response;
  try {
    response = await fetch(path, options);
  } catch (error) {
    throw signal?.aborted ? error : new Problem(SILENT);
  }
  if (!response.ok) throw await refusal(response);
  return response;
}

async function json(method, path, options) {
  const response = await answer(method, path, options);
  if (response.status === 204) return null;
  const text = await response.text();
  return text ? JSON.parse(text) : null;
}

export const get = (path, options) => json("GET", path, options);
export const post = (path, body = {}, options = {}) => json("POST", path, { body, ...options });
export const remove = (path) => json("DELETE", path);

/** A picture, as a blob: an `img` alone could not show the sentence of a refusal. */
export const picture = async (path, signal) => (await answer("GET", path, { signal })).blob();

/** All entries of a list that comes in pages. The limit is far above what a server keeps in a week. */
export async function all(path) {
  const results = [];
  for (let page = 0; path && page < 100; page += 1) {
    const list = await get(path);
    results.push(...list.results);
    path = list.next && local(list.next);
  }
  return results;
}
