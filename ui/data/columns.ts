// Answers of api/ask and api/live as typed arrays. NaN is "not measured", in every array; a null of
// the JSON form becomes NaN.

import { type Dist, lines } from "./dist";

/** One value a cell of the grid. */
export type Column = Float32Array | Float64Array;

/** Events known to be missing, with the reason; events 0 = unknown number. */
export interface Loss {
  reason: string;
  events: number;
}

/** One row of an answer. */
export interface Series {
  /** One label for each field of Answer.by. */
  key: string[];
  /** The key as one text. It identifies a row. */
  id: string;
  values: Column;
  /**
   * Least and greatest of the measurements that a cell was made of; null where each cell is one
   * measurement.
   */
  min: Column | null;
  max: Column | null;
  /** Of a kind dist: the distribution of each cell; null where there were no events. */
  dists?: readonly (Dist | null)[];
  /** Of a row that differs from the others: by how much. */
  unlike?: Unlike;
}

/** How a row differs from those that it is comparable with. */
export interface Unlike {
  /** Robust standard deviations above the median of the others; negative: below. */
  score: number;
  median: number;
  /** The number of the others. */
  others: number;
}

/** The rows that differ from the others, by id. */
export type Deviants = ReadonlyMap<string, Unlike>;

/**
 * A table over time: cell c covers (start+c*step, start+(c+1)*step], in milliseconds since the
 * epoch.
 */
export interface Answer {
  query: string;
  kind: string;
  unit: string;
  /** A row that is absent from an answer of one cell reads as 0, where the cell was measured. */
  sparse: boolean;
  start: number;
  step: number;
  /**
   * Milliseconds truly measured in each cell; 0 = nothing was. Its length is the number of cells.
   */
  elapsed: Float64Array;
  by: string[];
  series: Series[];
  /** All rows that there are, also those beyond the ones asked for. */
  rows: number;
  /** The rows beyond, folded into one; null when there are none or when they can't be folded. */
  rest: { rows: number; values: Column } | null;
  loss: Loss[];
  notes: string[];
  /** Of a tick: when the server compared the rows; those that differ are sent before others. */
  compared?: number;
  /** Of a tick with new scores: the rows that differ from the others, by id. */
  unlike?: Deviants;
}

/** The content type of the binary form. */
export const binaryType = "application/vnd.culprit.columns";

/** A text that no label holds stands between the labels of an id. */
const between = "\u001f";

/** The key as one text. */
export function idOf(key: readonly string[]): string {
  return key.join(between);
}

/** The key back from its text. An answer without fields has the key []. */
export function keyOf(id: string, width: number): string[] {
  return width === 0 ? [] : id.split(between);
}

interface Head {
  query: string;
  kind: string;
  unit: string;
  sparse?: boolean;
  start_ms: number;
  step_ms: number;
  elapsed_ms: number[];
  by: string[] | null;
  series:
    | {
        key: (string | number)[] | null;
        minmax?: boolean;
        values?: (number | null)[];
        min?: (number | null)[];
        max?: (number | null)[];
        dists?: (Dist | null)[];
        unlike?: Unlike;
      }[]
    | null;
  rows?: number;
  rest?: { rows: number; values?: (number | null)[] } | null;
  loss?: Loss[] | null;
  notes?: string[] | null;
  compared_ms?: number;
  unlike?: (Unlike & { key: string[] })[];
}

function frame(h: Head): Answer {
  return {
    query: h.query,
    kind: h.kind,
    unit: h.unit,
    sparse: h.sparse ?? false,
    start: h.start_ms,
    step: h.step_ms,
    elapsed: Float64Array.from(h.elapsed_ms),
    by: h.by ?? [],
    series: [],
    rows: h.rows ?? h.series?.length ?? 0,
    rest: null,
    loss: h.loss ?? [],
    notes: h.notes ?? [],
  };
}

function numbers(list: readonly (number | null)[], cells: number): Float64Array {
  const out = new Float64Array(cells).fill(NaN);
  for (let i = 0; i < cells && i < list.length; i++) {
    const v = list[i];
    if (v !== null && v !== undefined) out[i] = v;
  }
  return out;
}

const mark = (s: { unlike?: Unlike }): { unlike?: Unlike } =>
  s.unlike ? { unlike: s.unlike } : {};

/** The JSON form as an answer, in 64 bits. */
export function fromJSON(json: unknown): Answer {
  const h = json as Head;
  const a = frame(h);
  const cells = a.elapsed.length;
  for (const s of h.series ?? []) {
    const key = (s.key ?? []).map(String);
    if (h.kind === "dist") {
      a.series.push({
        key,
        id: idOf(key),
        ...lines(s.dists ?? [], cells),
        dists: s.dists ?? [],
        ...mark(s),
      });
      continue;
    }
    a.series.push({
      key,
      id: idOf(key),
      values: numbers(s.values ?? [], cells),
      min: s.min ? numbers(s.min, cells) : null,
      max: s.max ? numbers(s.max, cells) : null,
      ...mark(s),
    });
  }
  if (h.compared_ms !== undefined) a.compared = h.compared_ms;
  if (h.unlike)
    a.unlike = new Map(h.unlike.map(({ key, ...u }): [string, Unlike] => [idOf(key), u]));
  if (h.rest?.values) a.rest = { rows: h.rest.rows, values: numbers(h.rest.values, cells) };
  return a;
}

/** The columns can't be read: not ours, of a later version, or cut short. */
export class FormatError extends Error {}

/**
 * The binary form as an answer, in 32 bits. The arrays look into the buffer, nothing is copied.
 *
 *     0  "CLPT"
 *     4  u8 version = 1
 *     5  u8 width of a value = 4
 *     6  u16 flags
 *     8  u32 bytes of the header
 *    12  header: JSON, as the JSON form without values; padded with zeros to a multiple of 8
 *        for each series: values [min max]; then rest.values; float32, little endian
 */
export function fromBinary(buffer: ArrayBuffer): Answer {
  const view = new DataView(buffer);
  if (buffer.byteLength < 12 || view.getUint32(0, false) !== 0x434c5054)
    throw new FormatError("this is not culprit's columns format");
  if (view.getUint8(4) !== 1 || view.getUint8(5) !== 4)
    throw new FormatError("the columns format has a newer version: reload the page");
  const size = view.getUint32(8, true);
  if (12 + size > buffer.byteLength) throw new FormatError("the columns are truncated");
  const h = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 12, size))) as Head;
  const a = frame(h);
  const cells = a.elapsed.length;
  let at = (12 + size + 7) & ~7;
  const column = (): Float32Array => {
    if (at + cells * 4 > buffer.byteLength) throw new FormatError("the columns are truncated");
    const c = littleEndian ? new Float32Array(buffer, at, cells) : swapped(view, at, cells);
    at += cells * 4;
    return c;
  };
  for (const s of h.series ?? []) {
    const key = (s.key ?? []).map(String);
    if (h.kind === "dist") {
      a.series.push({
        key,
        id: idOf(key),
        ...lines(s.dists ?? [], cells),
        dists: s.dists ?? [],
        ...mark(s),
      });
      continue;
    }
    const values = column();
    a.series.push({
      key,
      id: idOf(key),
      values,
      min: s.minmax ? column() : null,
      max: s.minmax ? column() : null,
      ...mark(s),
    });
  }
  if (h.rest) a.rest = { rows: h.rest.rows, values: column() };
  return a;
}

const littleEndian = new Uint8Array(new Uint32Array([1]).buffer)[0] === 1;

function swapped(view: DataView, at: number, cells: number): Float32Array {
  const out = new Float32Array(cells);
  for (let i = 0; i < cells; i++) out[i] = view.getFloat32(at + i * 4, true);
  return out;
}

/** The rows of an answer that differ from the others. */
export function deviantsOf(a: Answer): Deviants {
  return new Map(a.series.flatMap((s): [string, Unlike][] => (s.unlike ? [[s.id, s.unlike]] : [])));
}

/** The end of the last cell, in milliseconds. */
export function endOf(a: Answer): number {
  return a.start + a.step * a.elapsed.length;
}

/**
 * The cell that holds a moment, or -1 when it is outside. A moment at the border of two cells is
 * the end of the earlier.
 */
export function cellAt(
  a: { start: number; step: number; elapsed: ArrayLike<number> },
  ms: number,
): number {
  const c = Math.ceil((ms - a.start) / a.step) - 1;
  return c >= 0 && c < a.elapsed.length ? c : -1;
}
