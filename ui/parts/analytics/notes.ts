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
};

/** What a flag says. */
export function flagText(notes: readonly Note[]): string {
  const first = notes[0];
  if (!first) return "";
  const text = `${short[first.kind]}${first.text}`;
  return notes.length > 1 ? `${notes.length}: ${text}` : text;
}
