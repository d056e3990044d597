// Numbers as people read them, with the units of the command line.

const UNITS = ["B", "KiB", "MiB", "GiB", "TiB"];

export function bytes(n) {
  if (n === null || n === undefined) return "";
  let unit = 0;
  while (n >= 1024 && unit < UNITS.length - 1) {
    n /= 1024;
    unit += 1;
  }
  return `${unit > 2 && n < 100 ? n.toFixed(1) : Math.round(n)} ${UNITS[unit]}`;
}

export const count = (n) => n.toLocaleString("en");

export const frames = (n) => `${count(n)} ${n === 1 ? "frame" : "frames"}`;

/** 1 shows as 1.0 and 0.04 as 0.04: slow films are restored at frames per minute. */
export const rate = (n) => (n >= 0.1 || n === 0 ? n.toFixed(1) : n.toPrecision(2));

export const percent = (share) => `${Math.floor(share * 100)}%`;

/** How long: `12 s`, `3 min 20 s`, `2 h 10 min`, `3 d 4 h`. */
export function duration(seconds) {
  const s = seconds > 0 && seconds < 1 ? 1 : Math.max(0, Math.round(seconds));
  if (s < 60) return `${s} s`;
  const [large, small, words] =
    s < 3600 ? [60, 1, ["min", "s"]] : s < 86400 ? [3600, 60, ["h", "min"]] : [86400, 3600, ["d", "h"]];
  const rest = Math.floor((s % large) / small);
  return `${Math.floor(s / large)} ${words[0]}${rest ? ` ${rest} ${words[1]}` : ""}`;
}

/** A length on a clock: `0:31`, `1:02:03`. */
export function clock(seconds) {
  const s = Math.max(0, Math.floor(seconds));
  const [h, m] = [Math.floor(s / 3600), Math.floor(s / 60) % 60];
  const two = (n) => String(n).padStart(2, "0");
  return `${h ? `${h}:${two(m)}` : m}:${two(s % 60)}`;
}

/** A place in a film: `0:04.17`, `1:02:03.50`. */
export function timecode(seconds) {
  const hundredths = Math.max(0, Math.floor(seconds * 100));
  const pad = (n) => String(n).padStart(2, "0");
  const [s, m, h] = [Math.floor(hundredths / 100) % 60, Math.floor(hundredths / 6000) % 60, Math.floor(hundredths / 360000)];
  return `${h ? `${h}:${pad(m)}` : m}:${pad(s)}.${pad(hundredths % 100)}`;
}

const pad = (n) => String(n).padStart(2, "0");
const time = (date) => `${pad(date.getHours())}:${pad(date.getMinutes())}`;

/** A moment, in the time of this machine: `2026-03-01 14:32`. */
export function moment(text) {
  const date = new Date(text);
  if (Number.isNaN(date.getTime())) return "";
  return `${date.getFullYear()}-${pad(date.getMonth() + 1)}-${pad(date.getDate())} ${time(date)}`;
}

/** When something ends that takes so long: `14:32`, with the day if that is not today. */
export function endsAt(secondsLeft) {
  const date = new Date(Date.now() + secondsLeft * 1000);
  return date.toDateString() === new Date().toDateString() ? time(date) : moment(date);
}

export const size = (width, height) => `${width}\u00a0×\u00a0${height}`;
