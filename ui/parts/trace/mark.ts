import type { Place, Trouble } from "../../data/client";
import { indexOfByte } from "../../data/sentence";

/** A piece of a text; wrong is the number of the fault that it is the place of, from 1, or 0. */
export interface Piece {
  text: string;
  wrong: number;
}

/** All that is wrong with a text, in the order of the text. */
export function faults(t: Trouble): Place[] {
  const all =
    t.position < 0
      ? []
      : [{ message: t.message, hint: t.hint, position: t.position, length: t.length }, ...t.also];
  return all.sort((a, b) => a.position - b.position);
}

/**
 * The text in pieces, so that what is wrong can be marked. A fault within another is not marked by
 * itself.
 */
export function pieces(text: string, wrong: readonly Place[]): Piece[] {
  const out: Piece[] = [];
  let at = 0;
  for (const [i, w] of wrong.entries()) {
    const from = indexOfByte(text, w.position);
    const to = Math.max(from + 1, indexOfByte(text, w.position + Math.max(1, w.length)));
    if (from < at) continue;
    out.push(
      { text: text.slice(at, from), wrong: 0 },
      { text: text.slice(from, to) || " ", wrong: i + 1 },
    );
    at = to;
  }
  out.push({ text: text.slice(at), wrong: 0 });
  return out.filter((p) => p.text !== "");
}

/** Line and column of a place, from 1. */
export function lineOf(text: string, byte: number): [number, number] {
  const before = text.slice(0, indexOfByte(text, byte)).split("\n");
  return [before.length, before[before.length - 1]!.length + 1];
}
