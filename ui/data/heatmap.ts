// Heat maps of distributions: time x value x events. The axis of values is that of the buckets:
// each power of two is as high as the next, and within it values are evenly spaced.

import { type Answer, type Column, cellAt } from "./columns";
import { bucketStart, count, type Dist, merge, quantile } from "./dist";
import { humane } from "./units";

/** A heat map: counts[cell * rows + row] events in the bucket first + row. */
export interface HeatMap {
  base: number;
  first: number;
  rows: number;
  cells: number;
  counts: Float64Array;
  /** Events of each cell; NaN where nothing was measured. */
  totals: Float64Array;
  /** Percentiles of each cell; NaN without events. max is the upper end of the highest bucket. */
  p50: Float64Array;
  p90: Float64Array;
  p99: Float64Array;
  max: Float64Array;
  /** All events, and the most of one bucket of one cell. */
  all: number;
  most: number;
}

/** The bucket of a value; see measure.BucketOf. */
export function bucketOf(base: number, v: number): number {
  const cut = 2 ** base;
  if (v < cut) return Math.max(0, Math.floor(v));
  // Not Math.log2, which is 2.9999... of 8.
  let power = Math.floor(Math.log2(v)) - base;
  if (v >= 2 ** (power + base + 1)) power++;
  else if (v < 2 ** (power + base)) power--;
  return power * cut + Math.floor(v / 2 ** power);
}

/** Where a value is on the axis: the number of its bucket, and its part of the bucket. */
export function axisOf(base: number, v: number): number {
  const b = bucketOf(base, v);
  const from = bucketStart(base, b);
  return b + (v - from) / (bucketStart(base, b + 1) - from);
}

/** The value at a place of the axis. */
export function valueAt(base: number, at: number): number {
  const b = Math.max(0, Math.floor(at));
  const from = bucketStart(base, b);
  return from + (Math.max(0, at) - b) * (bucketStart(base, b + 1) - from);
}

/** The map of some rows of an answer together, over the cells from..to. */
export function heatOf(
  a: Answer,
  rows: readonly (readonly (Dist | null)[])[],
  from = 0,
  to = a.elapsed.length,
): HeatMap {
  const cells = a.elapsed.length;
  const merged: (Dist | null)[] = new Array(cells).fill(null);
  let first = Infinity;
  let end = 0;
  for (let c = from; c < to; c++) {
    const d = rows.length === 1 ? (rows[0]![c] ?? null) : merge(rows.map((r) => r[c]));
    if (!d) continue;
    const low = d.counts.findIndex((n) => n > 0);
    if (low < 0) continue;
    merged[c] = d;
    first = Math.min(first, d.first + low);
    end = Math.max(end, d.first + d.counts.findLastIndex((n) => n > 0) + 1);
  }
  const height = end > 0 ? end - first : 0;
  const column = () => new Float64Array(cells).fill(Number.NaN);
  const h: HeatMap = {
    base: merged.find((d) => d !== null)?.base ?? 2,
    first: height > 0 ? first : 0,
    rows: height,
    cells,
    counts: new Float64Array(cells * height),
    totals: column(),
    p50: column(),
    p90: column(),
    p99: column(),
    max: column(),
    all: 0,
    most: 0,
  };
  for (let c = from; c < to; c++) {
    const d = merged[c];
    if (!(a.elapsed[c]! > 0)) continue;
    h.totals[c] = d ? count(d) : 0;
    if (d) fill(h, c, d);
  }
  return h;
}

function fill(h: HeatMap, c: number, d: Dist): void {
  for (const [i, n] of d.counts.entries()) {
    if (n === 0) continue;
    h.counts[c * h.rows + d.first + i - h.first] = n;
    h.most = Math.max(h.most, n);
  }
  h.all += h.totals[c]!;
  h.p50[c] = quantile(d, 0.5);
  h.p90[c] = quantile(d, 0.9);
  h.p99[c] = quantile(d, 0.99);
  h.max[c] = quantile(d, 1);
}

/**
 * Where a map ends when a share of its events (0.01: 1 %) may be cut off at the top: the bucket,
 * and the events that are cut, at most that share of all. With 0 nothing is cut.
 */
export function cropAt(h: HeatMap, share: number): { end: number; cut: number } {
  const totals = new Float64Array(h.rows);
  for (let c = 0; c < h.cells; c++)
    for (let r = 0; r < h.rows; r++) totals[r]! += h.counts[c * h.rows + r]!;
  let end = h.rows;
  let cut = 0;
  while (end > 1 && cut + totals[end - 1]! <= share * h.all) cut += totals[--end]!;
  return { end: h.first + end, cut };
}

/** Marks of the axis: powers of ten, of bytes every tenth power of two, so that labels fit. */
export function heatMarks(
  h: Pick<HeatMap, "base">,
  unit: string,
  first: number,
  end: number,
  most: number,
): { at: number; label: string }[] {
  const by = unit === "B" ? 1024 : 10;
  const all: { at: number; label: string }[] = [];
  for (let v = 1; v < 2 ** 63; v *= by) {
    const at = axisOf(h.base, v);
    if (at >= first && at <= end) all.push({ at, label: markLabel(v, unit) });
  }
  const every = Math.max(1, Math.ceil(all.length / Math.max(1, most)));
  if (all.length > 0) return all.filter((_, i) => (all.length - 1 - i) % every === 0);
  // A narrow range: its ends.
  return [first, end].map((at) => ({ at, label: markLabel(bucketStart(h.base, at), unit) }));
}

/** A round value without digits that say nothing: 1 ms, not 1.00 ms. */
function markLabel(v: number, unit: string): string {
  return humane(v, unit).replace(/(\d)\.0+(?=\D|$)/, "$1");
}

/** What a pointer is at: the cell, and the bucket. */
export interface Spot {
  cell: number;
  bucket: number;
}

/** A part of a map: the time in milliseconds, the values from low to below high. */
export interface Rectangle {
  from: number;
  to: number;
  low: number;
  high: number;
}

/** The rectangle of whole cells and buckets from one spot to another, whatever their order. */
export function rectangleOf(a: Answer, h: Pick<HeatMap, "base">, x: Spot, y: Spot): Rectangle {
  const [c0, c1] = x.cell < y.cell ? [x.cell, y.cell] : [y.cell, x.cell];
  const [b0, b1] = x.bucket < y.bucket ? [x.bucket, y.bucket] : [y.bucket, x.bucket];
  return {
    from: a.start + c0 * a.step,
    to: a.start + (c1 + 1) * a.step,
    low: bucketStart(h.base, b0),
    high: bucketStart(h.base, b1 + 1),
  };
}

/** The events of one cell and bucket, and their share of the cell; null in a gap. */
export function eventsAt(h: HeatMap, s: Spot): { events: number; share: number } | null {
  const total = h.totals[s.cell];
  if (total === undefined || Number.isNaN(total)) return null;
  const row = s.bucket - h.first;
  const events = row >= 0 && row < h.rows ? h.counts[s.cell * h.rows + row]! : 0;
  return { events, share: total > 0 ? events / total : 0 };
}

/** The events in a rectangle, as far as they are in the map. */
export function eventsIn(a: Answer, h: HeatMap, r: Rectangle): number {
  const first = Math.max(0, cellAt(a, r.from + a.step / 2));
  let n = 0;
  for (let c = first; c < h.cells && a.start + (c + 1) * a.step <= r.to + 1; c++) {
    for (let i = 0; i < h.rows; i++) {
      const v = bucketStart(h.base, h.first + i);
      if (v >= r.low && v < r.high) n += h.counts[c * h.rows + i]!;
    }
  }
  return n;
}

/** Percentile lines in the order in which they are drawn. */
export const percentiles = ["p50", "p90", "p99", "max"] as const;
export type Percentile = (typeof percentiles)[number];

/** Percentiles as places on the axis. */
export function lineAt(h: HeatMap, of: Percentile): Column {
  return Float64Array.from(h[of], (v) => (Number.isNaN(v) ? v : axisOf(h.base, v)));
}
