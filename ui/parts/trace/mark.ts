import type { Place, Trouble } from "../../data/client";
import { indexOfByte } from "../../data/sentence";

/** All that is wrong with a text, in the order of the text. */
export function faults(t: Trouble): Place[] {
  const all =
    t.position < 0
      ? []
      : [{ message: t.message, hint: t.hint, position: t.position, length: t.length }, ...t.also];
  return all.sort((a, b) => a.position - b.position);
}

/** Line and column of a place, from 1. */
export function lineOf(text: string, byte: number): [number, number] {
  const before = text.slice(0, indexOfByte(text, byte)).split("\n");
  return [before.length, before[before.length - 1]!.length + 1];
}

/** The byte of an index, which is what the server's positions count. */
export function byteOf(text: string, index: number): number {
  return new TextEncoder().encode(text.slice(0, index)).length;
}
