// Uploads: one after the other, with numbers while they run. They are the one thing that is lost with the page.
import { Problem, local, sentence, unauthorized } from "./api.js";
import { announce } from "./dom.js";
import { bytes } from "./format.js";
import { changed, refreshFiles, refreshSession, state } from "./state.js";

/** Bytes that the server leaves free on its disk. */
const RESERVE = 2 ** 30;

/** Endings of programs and lists, which the server does not take. */
const SCRIPTS = /\.(vpy|avsi?|py|sh|toml|json|m3u8?|ffconcat|xspf|svg)$/i;

let last = 0;
let working = false;

/** Puts files into the queue of uploads. `done(file)` is called with what the server made of each. */
export function upload(files, done) {
  for (const file of files) {
    last += 1;
    state.uploads.push({ id: last, file, done, sent: 0, rate: null, moved: 0, problem: refused(file), request: null });
  }
  changed();
  work();
}

/** What can be said before a film was sent for an hour. */
function refused(file) {
  const { upload_limit: limit, free_disk: free } = state.session ?? {};
  if (SCRIPTS.test(file.name)) return new Problem("This is a program or a list, and no film. Drop a video or a picture.");
  if (free != null && file.size > free - RESERVE)
    return new Problem(
      `This file has ${bytes(file.size)}, and the server's disk has ${bytes(free)} free, of which ${bytes(RESERVE)} stays free. Make room, or start the server with another --state.`,
    );
  if (limit && file.size > limit)
    return new Problem(
      `This file has ${bytes(file.size)}, and the server takes at most ${bytes(limit)}. Start it with a larger --upload-limit, or with --allow-folder, which needs no upload.`,
    );
  return null;
}

/** The same with the numbers of now: the disk fills while others are uploaded. */
async function refusedNow(file) {
  await refreshSession().catch(() => {});
  return refused(file);
}

/** Seconds without a byte, if they are too many to go on showing a rate. */
export function stalled(upload) {
  const seconds = (performance.now() - upload.moved) / 1000;
  return upload.request && seconds >= 10 ? seconds : 0;
}

export function retryUpload(upload) {
  Object.assign(upload, { problem: null, sent: 0, rate: null });
  changed();
  work();
}

export function cancelUpload(upload) {
  upload.request?.abort();
  state.uploads = state.uploads.filter((each) => each !== upload);
  changed();
}

async function work() {
  if (working) return;
  working = true;
  for (let next = waiting(); next; next = waiting()) {
    try {
      const refusal = await refusedNow(next.file);
      if (!state.uploads.includes(next)) continue;
      if (refusal) throw refusal;
      const file = await send(next);
      state.uploads = state.uploads.filter((each) => each !== next);
      await refreshFiles().catch(() => {});
      announce(`${next.file.name} is uploaded`);
      next.done(file);
    } catch (problem) {
      next.problem = problem;
      next.request = null;
    }
    changed();
  }
  working = false;
}

const waiting = () => state.uploads.find((upload) => !upload.problem);

/** XMLHttpRequest, because fetch does not tell how much of a body was sent. */
function send(upload) {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    upload.request = request;
    upload.moved = performance.now();
    // Without a byte there is no event, and what is shown has to change nevertheless.
    const ticking = setInterval(changed, 1000);
    request.onloadend = () => clearInterval(ticking);
    request.open("POST", "/v1/files");
    request.setRequestHeader("X-Remaster", "1");
    request.upload.onprogress = meter(upload);
    request.onload = () => {
      let document = {};
      try {
        document = JSON.parse(request.responseText);
      } catch {
        /* an answer of something between us and the server */
      }
      if (request.status === 401) unauthorized.handler();
      if (request.status === 201 || request.status === 200)
        resolve({ ...document, media: document.urls?.get ?? local(`/v1/files/${document.id}`) });
      else reject(new Problem(sentence(document, request.status), request.status, document.kind));
    };
    // A refusal that comes before the last byte is taken for a lost connection by some browsers.
    request.onerror = async () =>
      reject((await refusedNow(upload.file)) ?? new Problem("The connection was lost during the upload. Try again."));
    request.onabort = () => reject(new Problem("The upload was canceled."));
    const form = new FormData();
    form.append("content", upload.file, upload.file.name);
    request.send(form);
  });
}

/** Counts bytes, with a rate over the last five seconds. */
function meter(upload) {
  const samples = [[performance.now(), 0]];
  return (event) => {
    const now = performance.now();
    upload.sent = Math.min(event.loaded, upload.file.size);
    upload.moved = now;
    samples.push([now, event.loaded]);
    while (samples.length > 2 && now - samples[0][0] > 5000) samples.shift();
    const [[since, from]] = samples;
    if (now - since > 300) upload.rate = ((event.loaded - from) / (now - since)) * 1000;
    changed();
  };
}

addEventListener("beforeunload", (event) => {
  if (waiting()) event.preventDefault();
});
