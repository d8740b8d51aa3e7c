import type { Dataset } from "../../data/api";
import type { datasetColumns } from "../../state/place";

export type Column = (typeof datasetColumns)[number];

/** What a column sorts by; unknown is NaN. */
export function keyOf(d: Dataset, column: Column): string | number {
  switch (column) {
    case "sentence":
      return d.sentence;
    case "since":
      return d.from_ms ?? Number.NaN;
    case "state":
      return d.state;
    case "rows":
      return d.rows;
    case "rate":
      return d.samples_per_s ?? Number.NaN;
    case "memory":
      return d.memory_bytes ?? Number.NaN;
    case "disk":
      return d.disk_bytes ?? Number.NaN;
    case "cpu":
      return d.cpu ?? Number.NaN;
    case "loss":
      return lost(d);
  }
}

/** Events known to be lost. */
export function lost(d: Dataset): number {
  return (d.loss ?? []).reduce((n, l) => n + l.events, 0);
}

/** Those that have every word in their sentence, maker or state, in order; unknown last whichever way, equals by their sentence. */
export function order(all: readonly Dataset[], find: string, column: Column, down: boolean): Dataset[] {
  const words = find.toLowerCase().split(/\s+/).filter(Boolean);
  const found = all.filter((d) => words.every((w) => `${d.sentence} ${d.maker} ${d.state}`.toLowerCase().includes(w)));
  const sign = down ? -1 : 1;
  return found.sort((a, b) => {
    const [x, y] = [keyOf(a, column), keyOf(b, column)];
    let c = 0;
    if (typeof x === "string" && typeof y === "string") c = x.localeCompare(y, "en") * sign;
    else if (typeof x === "number" && typeof y === "number") {
      if (Number.isNaN(x) !== Number.isNaN(y)) return Number.isNaN(x) ? 1 : -1;
      c = Number.isNaN(x) ? 0 : (x - y) * sign;
    }
    return c || a.sentence.localeCompare(b.sentence, "en") || a.id - b.id;
  });
}
