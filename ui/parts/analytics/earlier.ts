// The rows of a graph at an earlier time, laid on the grid of the graph. Pure.

import type { Answer, Column } from "../../data/columns";
import { howLong, raw } from "../../data/units";
import { shownZone, type Zone } from "../../data/zone";
import { moment } from "../../draw/axis";

/** What was measured at an earlier time, cell by cell of a later answer. */
export interface Laid {
  /** A value per cell for each row, by id; NaN where it is not known. */
  rows: ReadonlyMap<string, Column>;
  /** The rows that were not sent, folded into one; null where there are none. */
  rest: Column | null;
  /** All rows of that time were sent, or are in the rest. */
  complete: boolean;
  /**
   * Milliseconds that were measured in the earlier cell; 0: nothing was recorded then. NaN: it was
   * not asked for yet.
   */
  elapsed: Float64Array;
  /** The length of the earlier cells, in milliseconds. */
  step: number;
}

/**
 * Lays an earlier answer, `by` milliseconds before, on the cells of an answer: each cell gets what
 * the earlier cell around its middle has. Earlier cells may be longer, where only minutes or hours
 * are kept. Shorter ones are no means of a cell, and are not known.
 */
export function lay(a: Answer, earlier: Answer, by: number): Laid {
  const cells = a.elapsed.length;
  const from = new Int32Array(cells).fill(-1);
  for (let c = 0; c < cells && earlier.step >= a.step; c++) {
    const middle = a.start + (c + 0.5) * a.step - by;
    const e = Math.floor((middle - earlier.start) / earlier.step);
    if (e >= 0 && e < earlier.elapsed.length) from[c] = e;
  }
  const on = (values: Column): Float64Array =>
    Float64Array.from(from, (e) => (e < 0 ? Number.NaN : values[e]!));
  const elapsed = on(earlier.elapsed);
  const sent = earlier.rows <= earlier.series.length;
  const rows = new Map<string, Column>();
  for (const s of earlier.series) rows.set(s.id, on(s.values));
  // A row that is absent where all were sent came to nothing.
  if (sent && earlier.sparse && earlier.kind !== "dist") {
    const none = elapsed.map((ms) => (ms > 0 ? 0 : Number.NaN));
    for (const s of a.series) if (!rows.has(s.id)) rows.set(s.id, none);
  }
  return {
    rows,
    rest: earlier.rest ? on(earlier.rest.values) : null,
    complete: sent || earlier.rest !== null,
    elapsed,
    step: earlier.step,
  };
}

/** The milliseconds in cells from..to of which nothing was recorded then. */
export function missing(l: Laid, a: Answer, from: number, to: number): number {
  let ms = 0;
  for (let c = Math.max(0, from); c < Math.min(to, l.elapsed.length); c++)
    if (l.elapsed[c] === 0) ms += a.step;
  return ms;
}

/**
 * What must be known to read the earlier rows: which time they are of, what of it was not recorded,
 * how long the cells were, and whether the clock was set since.
 */
export function caveats(
  laid: Laid,
  a: Answer,
  by: number,
  cells: { from: number; to: number },
  clocks: readonly string[],
  zone: Zone = shownZone,
): string[] {
  const begin = a.start + cells.from * a.step - by;
  const end = a.start + cells.to * a.step - by;
  const last = moment(end, zone);
  const texts = [
    `${moment(begin, zone)} to ${last.slice(0, 10) === moment(begin, zone).slice(0, 10) ? last.slice(11) : last}`,
  ];
  const gone = missing(laid, a, cells.from, cells.to);
  const all = (cells.to - cells.from) * a.step;
  if (gone > 0 && gone >= all) texts.push("nothing was recorded then");
  else if (gone > 0) texts.push(`nothing was recorded for ${howLong(gone)} of it`);
  if (laid.step > a.step) texts.push(`kept in cells of ${howLong(laid.step)}`);
  if (!laid.complete) texts.push("smaller rows of then are not known");
  if (zone(begin) !== zone(begin + by))
    texts.push("the time zone's offset from UTC was another one then");
  texts.push(...clocks);
  return texts;
}

/** A difference in all digits, and as a share of what was. */
export function differenceText(now: number, was: number, unit: string): string {
  const d = now - was;
  if (Number.isNaN(d)) return "";
  const share =
    was !== 0
      ? ` (${d > 0 ? "+" : ""}${Number(((d / Math.abs(was)) * 100).toPrecision(3))} %)`
      : "";
  return `${d > 0 ? "+" : ""}${raw(d, unit)}${share}`;
}
