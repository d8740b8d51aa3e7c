// Columns of one grid, and the numbers of a resource over them.

import { type Answer, type Column, idOf } from "../columns";
import { mean } from "../series";
import { type Asked, asks, type Metric, type Odd } from "./shapes";

/** Columns of one grid. */
export class Work {
  constructor(
    readonly start: number,
    readonly step: number,
    readonly cells: number,
    /** The cell that is shown as now. */
    readonly newest: number,
  ) {}

  none(): Float64Array {
    return new Float64Array(this.cells).fill(Number.NaN);
  }

  /** A column of an answer, laid on this grid. */
  lay(a: Answer, values: Column): Float64Array {
    const out = this.none();
    const shift = Math.round((this.start - a.start) / this.step);
    for (let c = 0; c < this.cells; c++) {
      const v = values[c + shift];
      if (v !== undefined) out[c] = v;
    }
    return out;
  }

  /** The rows of an answer by their keys, laid on this grid. */
  rows(a: Answer | undefined): Map<string, Float64Array> {
    const out = new Map<string, Float64Array>();
    for (const s of a?.series ?? []) out.set(s.id, this.lay(a!, s.values));
    return out;
  }

  /** One row; all unknown when it is not there. */
  one(a: Answer | undefined, ...key: string[]): Float64Array {
    const id = idOf(key);
    const s = a?.series.find((x) => x.id === id);
    return s ? this.lay(a!, s.values) : this.none();
  }

  each(f: (c: number) => number): Float64Array {
    const out = new Float64Array(this.cells);
    for (let c = 0; c < this.cells; c++) out[c] = f(c);
    return out;
  }

  /** The sum of what is known; unknown where nothing is. */
  sum(list: Float64Array[]): Float64Array {
    return this.each((c) => {
      let s = Number.NaN;
      for (const l of list) {
        const v = l[c]!;
        if (!Number.isNaN(v)) s = Number.isNaN(s) ? v : s + v;
      }
      return s;
    });
  }
}

export function metric(
  values: Float64Array,
  unit: string,
  what: string,
  sentence: string,
  warm = Number.NaN,
  hot = Number.NaN,
  top = Number.NaN,
): Metric {
  return { values, unit, what, sentence, warm, hot, top };
}

/** Others that do less than this share of the work of a thing are idle, and no peers of it. */
const idle = 0.01;

/**
 * In what each thing differs most from the others, over the answers that measure it; each has words
 * for its quantity. The first fields of a key, as many as width, name the thing. Of quantities of
 * work the one that works among idle ones is not marked: the disk of a machine among loop devices.
 */
export function oddOf(
  width: number,
  work: readonly [Answer | undefined, string][],
  other: readonly [Answer | undefined, string][] = [],
): Map<string, Odd> {
  const out = new Map<string, Odd>();
  for (const [a, words] of [...work, ...other]) {
    const works = work.some(([x]) => x === a);
    for (const s of a?.series ?? []) {
      if (!s.unlike) continue;
      if (works && s.unlike.median < idle * mean(s.values, a!.elapsed)) continue;
      const id = idOf(s.key.slice(0, width));
      const best = out.get(id);
      if (best && Math.abs(best.unlike.score) >= Math.abs(s.unlike.score)) continue;
      const what = [words, ...s.key.slice(width)].join(" ");
      out.set(id, { what, unit: a!.unit, unlike: s.unlike });
    }
  }
  return out;
}

/** A share of a capacity: high from 70 %, full from 90 %. */
export function share(
  values: Float64Array,
  what: string,
  sentence: string,
  warm = 0.7,
  hot = 0.9,
): Metric {
  return metric(values, "ratio", what, sentence, warm, hot, 1);
}

/** The share of time in which some task waited. */
export function stalled(w: Work, a: Asked, resource: string): Metric | null {
  if (!a.pressure || a.pressure.series.length === 0) return null;
  return metric(
    w.one(a.pressure, resource),
    "ratio",
    `time in which some task waited for ${resource}`,
    asks.pressure,
    0.1,
    0.4,
    1,
  );
}
