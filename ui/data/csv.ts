// Answers as comma-separated values.

import type { Answer, Series } from "./columns";

/** The rows of an earlier time beside those of an answer. */
export interface EarlierRows {
  answer: Answer;
  series: readonly Series[];
  /** Which time it is: "1 h before". */
  words: string;
}

/**
 * An answer as comma-separated values: one line per row and cell, times in RFC 3339, unknown values
 * empty. If the graph is compared with an earlier time, its rows follow, with their own start, end
 * and measured time; the column time distinguishes them.
 */
export function csv(
  a: Answer,
  series: readonly Series[] = a.series,
  earlier: EarlierRows | null = null,
): string {
  const parts = [{ answer: a, series, words: "shown" }, ...(earlier ? [earlier] : [])];
  const band = parts.some((p) => p.series.some((s) => s.min));
  const head = ["start", "end", "measured_s", ...a.by, `value (${a.unit})`];
  if (earlier) head.unshift("time");
  if (band) head.push("min", "max");
  const lines = [head.map(field).join(",")];
  for (const p of parts) {
    for (let c = 0; c < p.answer.elapsed.length; c++) {
      for (const s of p.series) {
        const line = [...timesOf(p.answer, c), ...s.key.map(field), number(s.values[c])];
        if (earlier) line.unshift(field(p.words));
        if (band) line.push(number(s.min?.[c]), number(s.max?.[c]));
        lines.push(line.join(","));
      }
    }
  }
  return `${lines.join("\r\n")}\r\n`;
}

/**
 * The rows of an earlier answer that belong to rows of a later one; where none are chosen, all. A
 * chosen row that is absent then came to nothing, if absence means so.
 */
export function earlierRows(
  earlier: Answer,
  shown: readonly Series[],
  chosen: boolean,
): readonly Series[] {
  const had = new Map(earlier.series.map((s) => [s.id, s]));
  const all = earlier.rows <= earlier.series.length;
  const zero = all && earlier.sparse && earlier.kind !== "dist";
  const values = earlier.elapsed.map((ms) => (ms > 0 ? 0 : Number.NaN));
  const of = shown.flatMap((s): Series[] => {
    const row = had.get(s.id);
    had.delete(s.id);
    if (row) return [row];
    return zero ? [{ key: s.key, id: s.id, values, min: null, max: null }] : [];
  });
  return chosen ? of : [...of, ...had.values()];
}

/** Begin, end and measured seconds of a cell. */
function timesOf(a: Answer, cell: number): string[] {
  const at = (c: number): string => new Date(a.start + c * a.step).toISOString();
  return [at(cell), at(cell + 1), number(a.elapsed[cell]! / 1000)];
}

const number = (v: number | undefined): string =>
  v === undefined || Number.isNaN(v) ? "" : String(v);

/** A text that a spreadsheet reads as it is, and never as a formula, in quotes or not. */
function field(text: string): string {
  const plain = /^[=+@\-\t\r]/.test(text) ? `'${text}` : text;
  return /[",\r\n]/.test(plain) ? `"${plain.replaceAll('"', '""')}"` : plain;
}
