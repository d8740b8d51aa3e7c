// The samples that a server records, by time: a column for each second or several, a line for each
// part of the second.

import type { Kept } from "../../data/api";
import type { When } from "../../data/ask";
import type { Answer } from "../../data/columns";

/** A stretch of time, in milliseconds since the epoch. */
export interface Stretch {
  from: number;
  to: number;
}

export interface Seconds {
  start: number;
  step: number;
  /** How many columns. */
  cells: number;
  /** How many lines, the first from the beginning of the second. */
  slots: number;
  /**
   * Samples a second that found a CPU busy: that of a line and a column is at slot * cells + cell.
   * NaN: nothing was measured. What was begun within a second has seen a part of its lines alone,
   * each once: of those it is the samples that there were, and not what as many would have been in
   * a whole second.
   */
  rate: Float32Array;
  /** The same of all lines together. */
  whole: Float32Array;
  /** The greatest of rate. */
  most: number;
}

/** The query of the map, and when and how fine it is asked. */
export const mapQuery = "cpu.stack.busy by slot";
export const mapWhen = (from: number, to: number): When => ({ from, to, columns: 400 });

/**
 * Of the answer to cpu.stack.busy by slot. A line that is absent where something was measured was
 * not busy.
 */
export function secondsOf(a: Answer, slots: number): Seconds {
  const cells = a.elapsed.length;
  const rate = new Float32Array(slots * cells);
  const whole = new Float32Array(cells);
  for (let c = 0; c < cells; c++) {
    if (a.elapsed[c]! > 0) continue;
    whole[c] = Number.NaN;
    for (let s = 0; s < slots; s++) rate[s * cells + c] = Number.NaN;
  }
  // Of each column the share of its seconds that was measured, where not all of them were whole.
  const share = a.elapsed.map((ms) =>
    Math.min(1, ms / (1000 * Math.max(1, Math.min(a.step / 1000, Math.ceil(ms / 1000 - 0.05))))),
  );
  let most = 0;
  for (const row of a.series) {
    const s = Number(row.key[0]);
    if (!(s >= 0 && s < slots)) continue;
    for (let c = 0; c < cells; c++) {
      const v = row.values[c]!;
      if (!(v > 0)) continue;
      const seen = v * share[c]!;
      rate[s * cells + c] = seen;
      whole[c]! += v;
      if (seen > most) most = seen;
    }
  }
  return { start: a.start, step: a.step, cells, slots, rate, whole, most };
}

/**
 * The stretch of so many milliseconds in which CPUs were busiest; null where nothing was measured.
 */
export function busiest(s: Seconds, ms: number): Stretch | null {
  const n = Math.max(1, Math.min(s.cells, Math.round(ms / s.step)));
  let best = -1;
  let at = 0;
  for (let c = 0; c + n <= s.cells; c++) {
    let sum = 0;
    for (let i = c; i < c + n; i++) sum += s.whole[i]!;
    if (sum > best) {
      best = sum;
      at = c;
    }
  }
  return best < 0 ? null : { from: s.start + at * s.step, to: s.start + (at + n) * s.step };
}

/** All of it. */
export const wholeOf = (s: Pick<Seconds, "start" | "step" | "cells">): Stretch => ({
  from: s.start,
  to: s.start + s.cells * s.step,
});

/** What a place of the map is: its column, the part of the second, and the samples there. */
export function pointAt(
  s: Seconds,
  ms: number,
  height: number,
): { from: number; offset: [number, number]; rate: number } | null {
  const cell = Math.floor((ms - s.start) / s.step);
  const slot = Math.floor(height * s.slots);
  if (cell < 0 || cell >= s.cells || slot < 0 || slot >= s.slots) return null;
  const part = 1000 / s.slots;
  return {
    from: s.start + cell * s.step,
    offset: [slot * part, (slot + 1) * part],
    rate: s.rate[slot * s.cells + cell]!,
  };
}

/** The longest time that is shown before somebody chooses one. */
const longestFirst = 600_000;

/**
 * What is shown before somebody chooses: the newest ten minutes with samples; null where there are
 * none.
 */
export function newestOf(s: Seconds): Stretch | null {
  let end = s.cells;
  while (end > 0 && !(s.whole[end - 1]! > 0)) end--;
  if (end === 0) return null;
  let first = Math.max(0, end - Math.max(1, Math.floor(longestFirst / s.step)));
  while (!(s.whole[first]! > 0)) first++;
  return { from: s.start + first * s.step, to: s.start + end * s.step };
}

/** A stretch widened to whole columns. */
export function snapped(
  s: Pick<Seconds, "start" | "step" | "cells">,
  from: number,
  to: number,
): Stretch {
  const cell = (ms: number) => Math.min(s.cells, Math.max(0, ms));
  const first = cell(Math.floor((Math.min(from, to) - s.start) / s.step));
  const end = cell(Math.max(first + 1, Math.ceil((Math.max(from, to) - s.start) / s.step)));
  return { from: s.start + Math.min(first, end - 1) * s.step, to: s.start + end * s.step };
}

/**
 * The name of what was recorded in a stretch, as the server and the address have it: of all
 * threads, or of some, as pid:1234.
 */
export function nameOf(s: Stretch, whose = ""): string {
  return `${Math.round(s.from)}..${Math.round(s.to)}${whose === "" ? "" : `,${whose}`}`;
}

/** Whose samples a name is of; "" of all, and of any other name. */
export function whoseOf(name: string): string {
  return stretchOf(name) ? name.split(",").slice(1).join(",") : "";
}

/** The stretch of a name; null of any other. */
export function stretchOf(name: string): Stretch | null {
  const m = /^(\d{1,15})\.\.(\d{1,15})(?:,|$)/.exec(name);
  const from = Number(m?.[1]);
  const to = Number(m?.[2]);
  return m && to > from ? { from, to } : null;
}

/** The longest time of recorded samples that has a flame chart. */
const longestChart = 120_000;

/**
 * The name of what was recorded while CPU samples were taken, in whole seconds; "" of any other
 * profile. Of a long one it is the beginning, which has a flame chart.
 */
export function recordedOf(k: Pick<Kept, "unit" | "from_ms" | "to_ms">, whose: string): string {
  if (k.unit !== "samples" || k.from_ms === undefined || k.to_ms === undefined) return "";
  const from = Math.floor(k.from_ms / 1000) * 1000;
  const to = Math.min(Math.ceil(k.to_ms / 1000) * 1000, from + longestChart);
  return nameOf({ from, to }, whose);
}
