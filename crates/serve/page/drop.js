// Adding a film: the whole window is a drop area; or a file of this machine, or one that lies on the server's disk.
import { view } from "./address.js";
import { button, el, problem, setProblem, setText } from "./dom.js";
import { bytes, duration } from "./format.js";
import { state } from "./state.js";
import { upload } from "./upload.js";

/** Goes to the settings of a film that was just uploaded, unless one looks at something else by now. */
function openWhenAlone(alone) {
  return (file) => {
    if (alone && location.hash.length < 2) location.hash = view("new", { media: file.media });
  };
}

function add(files) {
  if (location.hash.length > 1 && files.length === 1) location.hash = "";
  upload(files, openWhenAlone(files.length === 1));
}

/** Makes the window a drop area. `refuse(error)` shows why a drop was not taken. */
export function acceptDrops(refuse) {
  const target = document.getElementById("target");
  const carriesFiles = (event) => event.dataTransfer?.types.includes("Files");
  // Every element under the pointer enters and leaves; only the last leaving counts.
  let depth = 0;
  addEventListener("dragenter", (event) => {
    if (!carriesFiles(event)) return;
    depth += 1;
    target.hidden = !state.ready;
  });
  addEventListener("dragleave", (event) => {
    if (!carriesFiles(event)) return;
    depth -= 1;
    target.hidden = depth <= 0;
  });
  addEventListener("dragover", (event) => {
    // Without this the browser would leave the page and open the file.
    if (carriesFiles(event)) event.preventDefault();
  });
  addEventListener("drop", (event) => {
    if (!carriesFiles(event)) return;
    event.preventDefault();
    depth = 0;
    target.hidden = true;
    if (!state.ready) return;
    const folder = [...event.dataTransfer.items].some((item) => item.webkitGetAsEntry?.()?.isDirectory);
    if (folder) refuse(new Error("A folder cannot be dropped. Drop the films in it, or start the server with --allow-folder."));
    else if (event.dataTransfer.files.length) add([...event.dataTransfer.files]);
  });
}

/** The view that asks for a film. */
export function addView() {
  const input = el("input", { type: "file", multiple: true, class: "unseen", tabindex: "-1", "aria-hidden": "true" });
  input.addEventListener("change", () => {
    add([...input.files]);
    input.value = "";
  });
  const failed = problem();
  const folders = el("span");
  const limits = el("p", { class: "note" });
  const root = el(
    "section",
    { class: "add" },
    el(
      "h2",
      { tabindex: "-1" },
      el("span", { class: "mouse" }, "Drop a film anywhere on this page"),
      el("span", { class: "touch" }, "Choose a film"),
    ),
    el(
      "p",
      { class: "acts" },
      button("Choose a file…", () => input.click(), { class: "primary" }),
      input,
      folders,
    ),
    failed,
    el(
      "p",
      {},
      "Then choose a model and a size. You see what they cost, and a frame before and after, before anything long starts.",
    ),
    limits,
  );

  function update() {
    const { folders: allowed = [], upload_limit: limit, free_disk: free, keep_seconds: keep } = state.session ?? {};
    if (allowed.length) {
      if (!folders.querySelector("a"))
        folders.replaceChildren(el("a", { href: "#folder", class: "button" }, "Choose from the server’s folders…"));
    } else if (!folders.firstChild) {
      folders.append(
        el(
          "span",
          { class: "note" },
          "Films that are on the server’s disk need no upload: start it with ",
          el("code", {}, "--allow-folder DIR"),
          ".",
        ),
      );
    }
    setText(limits, `Videos and images up to ${bytes(Math.min(limit, free))}. Results are kept for ${duration(keep)}.`);
  }
  return { root, title: "Add a film", update, refuse: (error) => setProblem(failed, error) };
}
