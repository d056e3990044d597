// Choosing a film that lies in a folder the server may read.
import { view } from "./address.js";
import { get } from "./api.js";
import { el, filmName, problem, setProblem, setText } from "./dom.js";
import { bytes } from "./format.js";
import { state } from "./state.js";

const link = (path) => view("folder", { path });

export function folderView(parameters) {
  const path = parameters.get("path");
  const list = el("ul", { class: "entries" });
  const failed = problem();
  const note = el("p", { class: "note", role: "status" });
  const closed = new AbortController();
  async function read() {
    setText(note, "Reading the folder…");
    setProblem(failed, null);
    try {
      const { entries } = await get(`/v1/folders${path ? `?${new URLSearchParams({ path })}` : ""}`, { signal: closed.signal });
      const collator = new Intl.Collator("en", { numeric: true });
      entries.sort((a, b) => b.folder - a.folder || collator.compare(a.name, b.name));
      list.replaceChildren(...entries.map(row));
      setText(note, entries.length ? "" : "This folder has no films.");
    } catch (error) {
      if (closed.signal.aborted) return;
      setText(note, "");
      setProblem(failed, error);
    }
  }
  read();
  const root = el(
    "section",
    { class: "folder" },
    el("h2", { tabindex: "-1" }, "Choose a film"),
    el("p", {}, ...crumbs(path)),
    failed,
    list,
    note,
  );
  return {
    root,
    title: "Choose a film",
    update() {},
    again: () => failed.hidden || read(),
    destroy: () => closed.abort(),
  };
}

function row(entry) {
  const href = entry.folder ? link(entry.path) : view("new", { media: entry.path });
  const name = filmName(entry.folder ? `${entry.name}/` : entry.name);
  return el("li", {}, el("a", { href }, name), entry.folder ? null : el("span", { class: "note" }, bytes(entry.size)));
}

/** The way from an allowed folder to this one. */
function crumbs(path) {
  const home = el("a", { href: "#folder" }, "Folders");
  if (!path) return [home];
  const separator = path.includes("\\") ? "\\" : "/";
  // `/films2` is not below `/films`. The root of a disk has its separator already.
  const closed = (text) => (text.endsWith(separator) ? text : `${text}${separator}`);
  const top = state.session.folders.find((folder) => closed(path).startsWith(closed(folder.path)));
  if (!top) return [home, " / ", filmName(path)];
  const parts = [[top.name, top.path]];
  for (const part of path.slice(top.path.length).split(separator).filter(Boolean))
    parts.push([part, `${closed(parts.at(-1)[1])}${part}`]);
  return [home, ...parts.flatMap(([name, to]) => [" / ", el("a", { href: link(to) }, filmName(name))])];
}
