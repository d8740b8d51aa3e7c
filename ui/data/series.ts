// What is done with the rows of an answer before they are drawn: order, the rest that is in no row,
// stacking, cropping, extremes.

import type { Answer, Column, Series, Unlike } from "./columns";
import { humane, type Wire } from "./units";

/** Mean of a column, each cell weighted by its measured time; NaN when nothing was measured. */
export function mean(
  values: Column,
  elapsed: ArrayLike<number>,
  from = 0,
  to = values.length,
): number {
  let sum = 0;
  let weight = 0;
  for (let c = from; c < to; c++) {
    const v = values[c]!;
    const w = elapsed[c]!;
    if (!Number.isNaN(v) && w > 0) {
      sum += v * w;
      weight += w;
    }
  }
  return weight > 0 ? sum / weight : NaN;
}

/** The greatest value; NaN when there is none. */
export function greatest(values: Column, from = 0, to = values.length): number {
  let m = -Infinity;
  for (let c = from; c < to; c++) if (values[c]! > m) m = values[c]!;
  return m === -Infinity ? NaN : m;
}

/** The least value; NaN when there is none. */
export function least(values: Column, from = 0, to = values.length): number {
  let m = Infinity;
  for (let c = from; c < to; c++) if (values[c]! < m) m = values[c]!;
  return m === Infinity ? NaN : m;
}

/** The newest value; NaN when there is none. */
export function last(values: Column): number {
  for (let c = values.length - 1; c >= 0; c--) if (!Number.isNaN(values[c])) return values[c]!;
  return NaN;
}

/**
 * Orders numbers from the largest to the smallest, the unknown at the end, equal ones by their
 * texts.
 */
export function byValue(values: ArrayLike<number>, texts: readonly string[]): number[] {
  const order = texts.map((_, i) => i);
  return order.sort((a, b) => {
    const x = values[a]!;
    const y = values[b]!;
    const known = Number(Number.isNaN(x)) - Number(Number.isNaN(y));
    if (known !== 0) return known;
    if (!Number.isNaN(x) && x !== y) return y - x;
    return texts[a]! < texts[b]! ? -1 : texts[a]! > texts[b]! ? 1 : 0;
  });
}

/**
 * Sums columns cell by cell. A cell that none has measured is NaN; where some have, the others
 * count as nothing.
 */
export function sum(columns: readonly Column[], cells: number): Float64Array {
  const out = new Float64Array(cells).fill(NaN);
  for (const col of columns) {
    for (let c = 0; c < cells; c++) {
      const v = col[c]!;
      if (!Number.isNaN(v)) out[c] = !Number.isNaN(out[c]) ? out[c]! + v : v;
    }
  }
  return out;
}

/** What of a whole is in none of its parts. */
export interface Residual {
  /** A value a cell, never below 0; NaN where it is unknown. */
  values: Float64Array;
  /**
   * Cells in which the parts come to more than the whole by as little as the error of the clock
   * ticks: 0 there.
   */
  clamped: number;
  /**
   * Cells in which the parts come to more than the whole by more than the error of the clock ticks:
   * unknown there.
   */
  exceeded: number;
  /** The most that the parts exceed the whole by, in the unit of the answer; 0 where they don't. */
  excess: number;
}

/** CPU time is counted in ticks of so many milliseconds. */
const tick = 10;

/**
 * The error of a difference between a whole and a number of parts, each counted in ticks, as a
 * share of the measured milliseconds: one tick of the whole, and of the parts as much as
 * independent errors add up to. What is no CPU time is counted exactly.
 */
function ticksError(a: Answer, cell: number, parts: number): number {
  const cpuTime = a.kind === "delta" && a.unit === "ratio";
  return cpuTime && a.elapsed[cell]! > 0 ? ((1 + Math.sqrt(parts)) * tick) / a.elapsed[cell]! : 0;
}

/**
 * The number of rows that were measured in a cell; of the rows beyond those that were sent, all.
 */
function measuredAt(a: Answer, cell: number): number {
  let n = a.rest && !Number.isNaN(a.rest.values[cell]!) ? a.rest.rows : 0;
  for (const s of a.series) if (!Number.isNaN(s.values[cell]!)) n++;
  return n;
}

/**
 * The difference between a total and its parts in each cell. It is NaN where the total is unknown,
 * where no part was measured, and where the parts exceed the total by more than the error of the
 * ticks. Within that error it is 0.
 */
export function residual(total: Answer, whole: Column, parts: Answer): Residual {
  const cells = parts.elapsed.length;
  const columns = parts.series.map((s) => s.values);
  if (parts.rest) columns.push(parts.rest.values);
  const summed = sum(columns, cells);
  const out: Residual = {
    values: new Float64Array(cells).fill(NaN),
    clamped: 0,
    exceeded: 0,
    excess: 0,
  };
  // Rows that were neither sent nor folded into one are missing in the sum of the parts.
  const rowsMissing = !parts.rest && parts.rows > parts.series.length;
  if (total.step !== parts.step || rowsMissing) return out;
  const shift = Math.round((parts.start - total.start) / parts.step);
  for (let c = 0; c < cells; c++) {
    const v = whole[c + shift];
    if (v === undefined || Number.isNaN(v) || Number.isNaN(summed[c])) continue;
    const left = v - summed[c]!;
    // Sums of many 32-bit values: what is less than a millionth of the total is rounding.
    const rounding = Math.abs(v) * 1e-6;
    if (left < -rounding) {
      if (left < -(ticksError(parts, c, measuredAt(parts, c)) + rounding)) {
        out.exceeded++;
        out.excess = Math.max(out.excess, -left);
        continue;
      }
      out.clamped++;
    }
    out.values[c] = left < rounding ? 0 : left;
  }
  return out;
}

/**
 * Columns put on one another: lower and upper edge of each, NaN where the row was not measured. The
 * first lies at the bottom.
 */
export function stack(
  columns: readonly Column[],
  cells: number,
): { lower: Float64Array; upper: Float64Array }[] {
  const base = new Float64Array(cells);
  return columns.map((col) => {
    const lower = new Float64Array(cells);
    const upper = new Float64Array(cells);
    for (let c = 0; c < cells; c++) {
      const v = col[c]!;
      lower[c] = !Number.isNaN(v) ? base[c]! : NaN;
      if (!Number.isNaN(v)) base[c]! += v;
      upper[c] = !Number.isNaN(v) ? base[c]! : NaN;
    }
    return { lower, upper };
  });
}

/**
 * The height at which a graph ends when a share (0.01: 1 %) of its cells is clipped at the top:
 * the least value that at most that share of the cells exceed. NaN when nothing was measured.
 */
export function ceiling(tops: Column, share: number): number {
  const known = Float64Array.from(tops).filter((v) => !Number.isNaN(v));
  if (known.length === 0) return NaN;
  known.sort();
  const out = Math.floor(known.length * share);
  return known[known.length - 1 - Math.min(out, known.length - 1)]!;
}

/** The greatest of some columns in each cell; NaN where none has a value. */
export function tops(columns: readonly Column[], cells: number): Float64Array {
  const out = new Float64Array(cells).fill(NaN);
  for (const col of columns) {
    for (let c = 0; c < cells; c++) {
      const v = col[c]!;
      if (!Number.isNaN(v) && !(v <= out[c]!)) out[c] = v;
    }
  }
  return out;
}

/**
 * Cells at the tips of the peaks of a column, the highest first. A peak stands out by at least a
 * twentieth of the column's span from the valleys on both sides; a plateau is one peak, at its
 * first cell. Gaps are no valleys. For valleys, give the negated column.
 */
export function peaks(values: Column): number[] {
  const hi = greatest(values);
  const lo = least(values);
  if (!(hi > lo)) return !Number.isNaN(hi) ? [values.indexOf(hi as never)] : [];
  const out: number[] = [];
  const enough = (hi - lo) / 20;
  let tip = -1; // the highest since the last valley
  let valley = Infinity;
  let valleyBefore = true; // the beginning is as good as a valley
  for (let c = 0; c < values.length; c++) {
    const v = values[c]!;
    if (Number.isNaN(v)) continue;
    if (valleyBefore) {
      if (tip < 0 || v > values[tip]!) tip = c;
      else if (values[tip]! - v >= enough) {
        out.push(tip);
        valleyBefore = false;
        valley = v;
      }
    } else {
      if (v < valley) valley = v;
      else if (v - valley >= enough) {
        valleyBefore = true;
        tip = c;
      }
    }
  }
  if (valleyBefore && tip >= 0) out.push(tip);
  return out.sort((a, b) => values[b]! - values[a]! || a - b);
}

/**
 * The cell to go to next from a cell: the next lower peak; the highest when the cell is at none, or
 * at the last. -1: there is none.
 */
export function nextPeak(values: Column, from: number): number {
  const list = peaks(values);
  if (list.length === 0) return -1;
  return list[(list.indexOf(from) + 1) % list.length]!;
}

/** The next lower valley, as nextPeak. */
export function nextValley(values: Column, from: number): number {
  return nextPeak(
    Float64Array.from(values, (v) => -v),
    from,
  );
}

/**
 * A name as it can be read: control characters, and those that turn the direction of what follows
 * them, are written out. Programs choose their names: one of these can pass for another name.
 */
export const readable = (name: string): string =>
  // biome-ignore lint/suspicious/noControlCharactersInRegex: these are looked for
  name.replace(/[\u0000-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/g, (c) =>
    c === "\n" ? "\\n" : c === "\t" ? "\\t" : `\\u${c.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );

/**
 * Labels of a row for people. With the fields' names the machine's own network namespace, which has
 * no name, is "" beside other labels, as the tools leave it out.
 */
export const labelsOf = (s: Pick<Series, "key">, by: readonly string[] = []): string[] =>
  s.key.map((k, i) => (k !== "" ? readable(k) : by[i] === "netns" && s.key.length > 1 ? "" : '""'));

/** Labels of a row as one text; the whole of an answer without fields is "all". */
export const nameOf = (s: Pick<Series, "key">, by: readonly string[] = []): string =>
  s.key.length === 0
    ? "all"
    : labelsOf(s, by)
        .filter((k) => k !== "")
        .join(" ");

/** Values that share a colour in all graphs: those of one name. */
export const colourKey = (s: Pick<Series, "key">): string => nameOf(s);

/**
 * The greatest-looking points of a column, brought to a number of points for a sparkline: each is
 * the greatest of its stretch.
 */
export function thin(values: Column, points: number): Column {
  if (values.length <= points) return values;
  const out = new Float64Array(points).fill(NaN);
  for (let p = 0; p < points; p++) {
    const from = Math.floor((p * values.length) / points);
    const to = Math.max(from + 1, Math.floor(((p + 1) * values.length) / points));
    out[p] = greatest(values, from, to);
  }
  return out;
}

/** By how much a row differs, without the direction; 0 where it does not. */
export const distance = (row: { unlike?: Unlike | null }): number =>
  Math.abs(row.unlike?.score ?? 0);

/** Rows that differ from the others first, the furthest of them first; the rest as it was. */
export function unlikeFirst<T extends { unlike?: Unlike | null }>(rows: readonly T[]): T[] {
  return [...rows].sort((x, y) => distance(y) - distance(x));
}

/** How a row differs, in words. what is its quantity, "" if there is one only; value may be NaN. */
export function unlikeText(u: Unlike, unit: string, wire: Wire, what = "", value = NaN): string {
  const amount = Number.isNaN(value) ? "" : humane(value, unit, wire);
  const than = `${u.score < 0 ? "less" : "more"} than the median of the ${u.others} others`;
  const size = `${humane(u.median, unit, wire)} (${Math.round(distance({ unlike: u }))} robust standard deviations)`;
  return `unlike the others: ${[[what, amount].filter(Boolean).join(" "), than, size].filter(Boolean).join(", ")}`;
}
