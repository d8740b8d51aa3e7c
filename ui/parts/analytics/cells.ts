// The cells of an answer that a graph shows. Pure.

import type { Answer } from "../../data/columns";
import type { Window } from "./scene";

/** Whether two marks are set and differ; NaN: a mark is not set. */
export const marked = (a: number, b: number): boolean =>
  !Number.isNaN(a) && !Number.isNaN(b) && a !== b;

/** The cells of a time. Means are of the time between the marks, where both are set. */
export function cellsOf(
  answer: Answer | null,
  from: number,
  to: number,
  a: number,
  b: number,
): Window {
  if (!answer) return { from: 0, to: 0, meanFrom: 0, meanTo: 0 };
  const { start, step, elapsed } = answer;
  const inside = (c: number): number => Math.min(elapsed.length, Math.max(0, c));
  // A moment at the border of two cells begins the later and ends the earlier.
  const first = (ms: number): number => inside(Math.floor((ms - start) / step + 1e-6));
  const end = (ms: number): number => inside(Math.ceil((ms - start) / step - 1e-6));
  const sight = { from: first(from), to: end(to) };
  if (!marked(a, b)) return { ...sight, meanFrom: sight.from, meanTo: sight.to };
  return { ...sight, meanFrom: first(Math.min(a, b)), meanTo: end(Math.max(a, b)) };
}

/** The newest cell in sight that was measured; -1: none was. */
export function newestOf(answer: Answer | null, cells: Window): number {
  for (let c = cells.to - 1; answer && c >= cells.from; c--) if (answer.elapsed[c]! > 0) return c;
  return -1;
}
