// What happened at a time, on the time axis.

import type { Note } from "../../data/api";

/** Notes that stand so close to one another that they have one flag. */
export interface Flag {
  /** Pixels from the left of the plot. */
  x: number;
  /** Pixels for its text. */
  space: number;
  /** The text is on the left, as there is more space. */
  flip: boolean;
  notes: Note[];
}

/** A flag has at least so many pixels. */
const apart = 44;
/** So many pixels are enough for a text. */
const enough = 180;

/** The flags of notes (in the order of time) on an axis of so many pixels. */
export function flagsOf(notes: readonly Note[], from: number, to: number, width: number): Flag[] {
  const flags: Flag[] = [];
  if (!(to > from) || !(width > 0)) return flags;
  for (const n of notes) {
    if (n.at_ms < from || n.at_ms > to) continue;
    const x = Math.min(((n.at_ms - from) / (to - from)) * width, Math.max(0, width - apart));
    const last = flags.at(-1);
    if (last && x - last.x < apart) last.notes.push(n);
    else flags.push({ x, space: 0, flip: false, notes: [n] });
  }
  let free = 0; // from here on nothing is written
  flags.forEach((f, i) => {
    const right = (flags[i + 1]?.x ?? width) - f.x;
    const left = f.x - free;
    f.flip = right < enough && left > right;
    f.space = f.flip ? left : right;
    free = f.flip ? f.x : f.x + right;
  });
  return flags;
}

/** The flag that has the notes of a moment; undefined: none. */
export function flagAt(flags: readonly Flag[], at: number): Flag | undefined {
  return flags.find((f) => f.notes.some((n) => n.at_ms === at));
}

const short: Record<Note["kind"], string> = {
  note: "",
  deploy: "deploy: ",
  culprit: "",
  script: "",
  dataset: "",
  clock: "",
  process: "",
  interface: "",
  memory: "",
  kernel: "",
};

/** Kinds of which there may be many: a flag of several notes says another one, if it has one. */
const plenty: Partial<Record<Note["kind"], number>> = { process: 2, interface: 1, dataset: 1 };

/** Whether a note is of what the kernel complains about. */
export function isGrave(n: Note): boolean {
  return (
    n.kind === "memory" || (n.kind === "kernel" && !/^kernel, (notice|info|debug)/.test(n.text))
  );
}

/** More lines in a graph hide it. */
const mostLines = 40;

/** The moments of which a graph has a line: without kinds of which there are too many. */
export function linesOf(notes: readonly Note[]): number[] {
  const few = notes.length > mostLines ? notes.filter((n) => !plenty[n.kind]) : notes;
  return few.map((n) => n.at_ms);
}

/** What a flag says. */
export function flagText(notes: readonly Note[]): string {
  if (notes.length === 0) return "";
  const said = notes.reduce((a, b) => ((plenty[b.kind] ?? 0) < (plenty[a.kind] ?? 0) ? b : a));
  const text = `${short[said.kind]}${said.text}`;
  return notes.length > 1 ? `${notes.length}: ${text}` : text;
}

/**
 * Lines about statistics whose events are unknown: those with a reason ("id: reason") one by one,
 * the others together.
 */
export function unreadLines(unread: readonly string[]): string[] {
  const reasons = unread.filter((u) => u.includes(": "));
  const others = unread.filter((u) => !u.includes(": "));
  const lines = reasons.map((u) => {
    const at = u.indexOf(": ");
    const id = u.slice(0, at);
    return `no ${id === "kernel.messages" ? "messages of the kernel" : `events of ${id}`}: ${u.slice(at + 2)}`;
  });
  if (others.length > 0)
    lines.push(`no events of ${others.join(", ")}: not recorded in this time, or too many rows`);
  return lines;
}

/** Notes of one flag that are equal, or differ only in numbers, shown as one line. */
export interface Gathered {
  note: Note;
  count: number;
  /** The time of the last of them. */
  until: number;
}

/**
 * Groups the notes of a flag into lines, at most `most`. Equal notes share a line; processes and
 * kernel messages share one also if they differ only in numbers. Kernel warnings come first, then
 * the rarest notes. left: notes without a line.
 */
export function gathered(
  notes: readonly Note[],
  most: number,
): { lines: Gathered[]; left: number } {
  const groups = new Map<string, Gathered>();
  for (const n of notes) {
    const many = n.kind === "kernel" || plenty[n.kind] !== undefined;
    const key = `${n.kind} ${many ? n.text.replace(/\d+/g, "#") : n.text}`;
    const g = groups.get(key);
    if (g) {
      g.count++;
      g.until = n.at_ms;
    } else groups.set(key, { note: n, count: 1, until: n.at_ms });
  }
  const all = [...groups.values()];
  const rank = (g: Gathered) => (isGrave(g.note) ? -1 : (plenty[g.note.kind] ?? 0));
  all.sort((a, b) => rank(a) - rank(b) || a.count - b.count || a.note.at_ms - b.note.at_ms);
  const lines = all.slice(0, most);
  return { lines, left: notes.length - lines.reduce((n, g) => n + g.count, 0) };
}
