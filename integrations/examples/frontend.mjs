// A frontend for Remaster: node frontend.mjs INPUT OUTPUT [OPTION...], such as --model=anime

import { spawn } from "node:child_process";
import { createInterface } from "node:readline";

const [source, target, ...options] = process.argv.slice(2);
if (target === undefined) { console.error("node frontend.mjs INPUT OUTPUT [OPTION...]"); process.exit(1); }

/** One line of progress. Events and fields that are not known are skipped. */
function show(event) {
  if (event.event === "progress") {
    const percent = event.share === undefined ? "  ?" : (100 * event.share).toFixed(0).padStart(3);
    const left = event.eta_seconds === undefined ? "" : `, ${event.eta_seconds.toFixed(0)} s left`;
    console.log(`${percent}% ${event.phase} ${event.done}/${event.total ?? "?"}${left}`);
  } else if (event.event === "warning") {
    console.log(`warning: ${event.text}`);
  }
}

function parse(text) {
  try {
    const value = JSON.parse(text);
    return typeof value === "object" ? value : null;
  } catch {
    return null; // Words of a library below the program.
  }
}

const program = process.env.REMASTER_BINARY ?? "remaster";
// --flag=value and -- keep names that start with a dash from being options.
const words = ["restore", "--json", "--progress=json", "--cancel-on-stdin-close", ...options];
const child = spawn(program, [...words, `--output=${target}`, "--", source], { windowsHide: true });

// The end of stdin asks it to stop, on every system.
process.on("SIGINT", () => child.stdin.end());
child.stdin.on("error", () => {});

createInterface({ input: child.stderr }).on("line", (line) => {
  const event = parse(line);
  if (event !== null) show(event);
});

let document = "";
child.stdout.setEncoding("utf8").on("data", (part) => (document += part));

child.on("error", (error) => {
  console.log(`binary-missing: ${error.message}`);
  process.exitCode = 127;
});

child.on("close", (code) => {
  if (child.pid === undefined) return;
  const result = parse(document) ?? { error: "the program gave no answer", kind: "internal" };
  if (code === 0) {
    console.log(result.skipped ? `${result.output} is there already` : `wrote ${result.output}`);
  } else {
    console.log(`${result.kind}: ${result.error}`);
  }
  process.exitCode = code ?? 1;
});
