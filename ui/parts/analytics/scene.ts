// Makes of an answer what a graph and its panel show. Pure: no canvas, no clock.

import { assign, grey } from "../../data/colour";
import {
  type Answer,
  type Column,
  type Deviants,
  deviantsOf,
  idOf,
  type Series,
  type Unlike,
} from "../../data/columns";
import {
  byValue,
  ceiling,
  colourKey,
  labelsOf,
  nameOf,
  type Residual,
  sum,
  tops,
  unlikeFirst,
} from "../../data/series";
import { humane, logMarks, logUnit, marks, type Scale, scaleFor } from "../../data/units";
import type { Laid } from "./earlier";
import type { Options } from "./graph";

/** One row of the panel. */
export interface Row {
  id: string;
  key: string[];
  name: string;
  /** The labels that the name consists of; "" is left out of it. */
  labels: string[];
  values: Column;
  min: Column | null;
  max: Column | null;
  /** A place of the palette, or grey. */
  place: number;
  /** Drawn: not hidden, and selected where some are. */
  shown: boolean;
  selected: boolean;
  /** Over the window: see rateOver. */
  mean: number;
  /** Its values at the earlier time that the graph is compared with; null: it is not. */
  earlier: Column | null;
  /** By how much it differs from the others; null where it does not. */
  unlike: Unlike | null;
}

/** Everything that a graph shows, but for where the crosshair is. */
export interface View {
  rows: Row[];
  /** The rows that are drawn, the most important first, without the residual. */
  drawn: Row[];
  /**
   * Of a stack: the rows without a colour, and those that the server did not send, as one; null
   * when there are none.
   */
  other: { count: number; values: Column } | null;
  /** The sum of all drawn rows, where rows may be summed. */
  total: Column | null;
  /** That sum at the earlier time; null where it is not known. */
  totalEarlier: Column | null;
  /**
   * Milliseconds measured in each cell at the earlier time: 0 where nothing was recorded, NaN where
   * it was not asked for; null: there is no earlier time.
   */
  elapsedEarlier: Column | null;
  /** What is in no row, never below 0; null where that is not known. */
  residual: Column | null;
  /** The greatest of each cell, of what is drawn. */
  tops: Column;
  /**
   * The greatest row of each cell, of a stack the sum of the drawn rows: never what is in no row.
   */
  rowTops: Column;
  /**
   * Of a stack of all rows whose cells are several measurements: the greatest that the whole was
   * within each cell; else null.
   */
  peaks: Column | null;
  /** The axis is logarithmic: low is its lower edge, at or below the least value above 0. */
  log: boolean;
  low: number;
  high: number;
  /** Of the axis. */
  scale: Scale;
  /** Of the table twin: the same unit, and a digit more where all before the point is taken. */
  column: Scale;
  values: number[];
  labels: string[];
  hidden: number;
  /** Smaller rows that were not sent, and that can't be summed. */
  missing: number;
}

/**
 * What a row comes to over cells from..to: of an amount, all that came to pass by all the time that
 * was measured, so that what lived shortly weighs little; of a level, the mean over the time in
 * which it was there.
 */
export function rateOver(a: Answer, values: Column, from = 0, to = values.length): number {
  let total = 0;
  let there = 0;
  let measured = 0;
  for (let c = Math.max(0, from); c < to; c++) {
    const w = a.elapsed[c]!;
    const v = values[c]!;
    if (w > 0) measured += w;
    if (w > 0 && !Number.isNaN(v)) {
      total += v * w;
      there += w;
    }
  }
  if (there === 0) return Number.NaN;
  return total / (a.kind === "delta" ? measured : there);
}

/**
 * Ids of the rows: first those that differ from the others, the furthest first, then by what they
 * come to over the window, the largest first.
 */
export function ranking(a: Answer, deviants: Deviants = deviantsOf(a)): string[] {
  const rows = byValue(
    a.series.map((s) => rateOver(a, s.values)),
    a.series.map((s) => s.id),
  ).map((i) => ({ id: a.series[i]!.id, unlike: deviants.get(a.series[i]!.id) ?? null }));
  return unlikeFirst(rows).map((r) => r.id);
}

export interface Window {
  /** Cells that are in sight. */
  from: number;
  to: number;
  /** Cells that the column "mean" is about. */
  meanFrom: number;
  meanTo: number;
}

/**
 * The greatest of a whole within each cell, laid on the grid of the answer that it is the whole of;
 * null where there is none such.
 */
export function peaksOf(whole: Answer, a: Answer): Column | null {
  const max = whole.series[0]?.max;
  if (!max || whole.step !== a.step) return null;
  const shift = Math.round((a.start - whole.start) / a.step);
  return Float64Array.from({ length: a.elapsed.length }, (_, c) => max[c + shift] ?? Number.NaN);
}

/**
 * Says where what is in no row is not the plain difference, as the rows of an answer come to more
 * than their whole; "" where they don't.
 */
export function excessNote(r: Residual, a: Answer, whole: string): string {
  const cells = (n: number): string =>
    `In ${n} of ${a.elapsed.length} cells the rows exceed ${whole} by`;
  const notes: string[] = [];
  if (r.clamped > 0)
    notes.push(
      `${cells(r.clamped)} less than the error of the clock ticks: the remainder is 0 there.`,
    );
  if (r.exceeded > 0)
    notes.push(
      `${cells(r.exceeded)} up to ${humane(r.excess, a.unit)}: the remainder is unknown there.`,
    );
  return notes.join(" ");
}

/** A power of ten at or below the least value above 0 in sight; at most twelve decades. */
function leastAbove(rows: readonly Row[], w: Window, high: number): number {
  let least = high;
  for (const r of rows) {
    for (let c = Math.max(0, w.from); c < w.to; c++) {
      const v = r.values[c]!;
      if (v > 0 && v < least) least = v;
    }
  }
  return 10 ** Math.floor(Math.log10(Math.max(least, high / 1e12)) + 1e-9);
}

/**
 * Values as a linear axis draws them: of a logarithmic view their logarithms, zero and less at the
 * lower edge. NaN stays NaN.
 */
export function onAxis(view: Pick<View, "log" | "low">, v: number): number;
export function onAxis(view: Pick<View, "log" | "low">, v: Column): Column;
export function onAxis(view: Pick<View, "log" | "low">, v: number | Column): number | Column {
  if (!view.log) return v;
  const place = (x: number): number => Math.log10(Math.max(x, view.low));
  return typeof v === "number" ? place(v) : Float64Array.from(v, place);
}

/**
 * The sum of all rows of an earlier time but the hidden ones, or of some rows; null where not all
 * of them are known.
 */
function sumEarlier(
  e: Laid,
  some: ReadonlySet<string> | null,
  hidden: ReadonlySet<string>,
): Column | null {
  if (some) {
    const columns = [...some].map((id) => e.rows.get(id));
    // A row that was not sent may be in the rest.
    if (columns.some((c) => !c) && !e.complete) return null;
    if (columns.some((c) => !c) && e.rest) return null;
    return sum(
      columns.flatMap((c) => (c ? [c] : [])),
      e.elapsed.length,
    );
  }
  // A hidden row that was not sent is in the rest.
  if (!e.complete || (e.rest && [...hidden].some((id) => !e.rows.has(id)))) return null;
  const columns = [...e.rows].filter(([id]) => !hidden.has(id)).map(([, c]) => c);
  return sum(e.rest ? [...columns, e.rest] : columns, e.elapsed.length);
}

/** Puts a view together. ranked: ids as of the last ranking; rows that are not in it come last. */
export function compose(
  a: Answer,
  ranked: readonly string[],
  o: Options,
  sums: boolean,
  stack: boolean,
  residual: Column | null,
  w: Window,
  height: number,
  whole: Column | null = null,
  deviants: Deviants = deviantsOf(a),
  earlier: Laid | null = null,
): View {
  const rank = new Map(ranked.map((id, i) => [id, i]));
  const selected = new Set(o.selected.map(idOf));
  const hidden = new Set(o.hidden.map(idOf));
  const sorted = [...a.series].sort(
    (x, y) => (rank.get(x.id) ?? Infinity) - (rank.get(y.id) ?? Infinity) || (x.id < y.id ? -1 : 1),
  );
  const some = sorted.some((s) => selected.has(s.id));
  const shows = (s: Series): boolean => !hidden.has(s.id) && (!some || selected.has(s.id));
  const order = [...sorted.filter(shows), ...sorted.filter((s) => !shows(s))];
  const places = assign(order.filter((s) => !hidden.has(s.id)).map(colourKey));
  const placeOf = new Map(order.filter((s) => !hidden.has(s.id)).map((s, i) => [s.id, places[i]!]));
  const unknown = new Float64Array(a.elapsed.length).fill(Number.NaN);
  const rows: Row[] = sorted.map((s) => ({
    id: s.id,
    key: s.key,
    name: nameOf(s, a.by),
    labels: labelsOf(s, a.by),
    values: s.values,
    min: s.min,
    max: s.max,
    place: placeOf.get(s.id) ?? grey,
    shown: shows(s),
    selected: selected.has(s.id),
    mean: rateOver(a, s.values, w.meanFrom, w.meanTo),
    earlier: earlier ? (earlier.rows.get(s.id) ?? unknown) : null,
    unlike: deviants.get(s.id) ?? null,
  }));
  const cells = a.elapsed.length;
  const visible = rows.filter((r) => r.shown);
  const drawn = [
    ...visible.filter((r) => r.place !== grey),
    ...visible.filter((r) => r.place === grey),
  ];
  const rest = !some && a.rest ? a.rest : null;
  let other: View["other"] = null;
  if (stack) {
    const parts = drawn.filter((r) => r.place === grey);
    const columns = parts.map((r) => r.values);
    if (rest) columns.push(rest.values);
    if (columns.length > 0)
      other = { count: parts.length + (rest?.rows ?? 0), values: sum(columns, cells) };
  } else if (rest) other = { count: rest.rows, values: rest.values };
  const all = drawn.map((r) => r.values);
  if (rest) all.push(rest.values);
  const total = sums ? sum(all, cells) : null;
  const totalEarlier =
    sums && earlier
      ? sumEarlier(earlier, some ? new Set(visible.map((r) => r.id)) : null, hidden)
      : null;
  const left = some ? null : residual;
  const rowTops =
    stack && total
      ? total
      : tops(
          drawn.map((r) => r.max ?? r.values),
          cells,
        );
  let top: Column = rowTops;
  if (left) top = stack && total ? sum([total, left], cells) : tops([rowTops, left], cells);
  const peaks = stack && !some && hidden.size === 0 ? whole : null;
  if (peaks) top = tops([top, peaks], cells);
  const behind = stack
    ? totalEarlier
      ? [totalEarlier]
      : []
    : drawn.flatMap((r) => (r.earlier && r.place !== grey ? [r.earlier] : []));
  if (behind.length > 0) top = tops([top, ...behind], cells);
  const seen = top.subarray(Math.max(0, w.from), Math.max(0, w.to));
  let high = ceiling(seen, o.crop / 100);
  let low = 0;
  if (!stack) {
    for (const v of [...drawn.map((r) => r.min ?? r.values), ...behind]) {
      for (let c = Math.max(0, w.from); c < w.to; c++) if (v[c]! < low) low = v[c]!;
    }
  }
  if (!(high > 0)) high = 0;
  const scale = scaleFor(a.unit, Math.max(high, -low), o.wire);
  // A little air above the greatest, unless it is cut.
  const empty = high === 0 && low === 0;
  const edge = empty ? 1 / scale.times : o.crop > 0 ? high : high * 1.06;
  const log = o.log && !stack && low >= 0 && !empty;
  const floor = log ? leastAbove(drawn, w, edge) : low * 1.06;
  const about = Math.max(2, Math.round(height / 44));
  const axis = log
    ? logMarks(floor, edge, a.unit, o.wire)
    : marks(floor, edge, a.unit, scale, about);
  return {
    rows,
    drawn,
    other,
    total,
    totalEarlier,
    elapsedEarlier: earlier?.elapsed ?? null,
    residual: left,
    tops: top,
    rowTops,
    peaks,
    log,
    low: floor,
    high: edge,
    scale: log ? { ...scale, unit: logUnit(a.unit, o.wire) } : scale,
    column: scale.decimals === 0 && scale.times !== 1 ? { ...scale, decimals: 1 } : scale,
    values: empty ? [0] : axis.values,
    labels: empty ? ["0"] : axis.labels,
    missing: a.rest ? 0 : Math.max(0, a.rows - a.series.length),
    hidden: rows.filter((r) => hidden.has(r.id)).length,
  };
}
