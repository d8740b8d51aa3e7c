// The calls that a search finds, one after the other.

import type { Calls } from "../../data/profile";

/**
 * The calls of found functions from left to right, the outermost of nested ones: what the matched
 * share counts.
 */
export function matchesOf(c: Calls, found: Uint8Array): number[] {
  const out: number[] = [];
  for (let i = 1; i < c.fn.length; ) {
    if (found[c.fn[i]!]) {
      out.push(i);
      i = c.end[i]!;
    } else i++;
  }
  return out;
}

/** The match after or before a node; -1 of none. After the last comes the first. */
export function nextMatch(matches: readonly number[], node: number, step: 1 | -1): number {
  if (matches.length === 0) return -1;
  let at = matches.findIndex((m) => m >= node);
  if (at < 0) at = matches.length;
  if (step > 0) return matches[matches[at] === node ? at + 1 : at] ?? matches[0]!;
  return matches[at - 1] ?? matches[matches.length - 1]!;
}
