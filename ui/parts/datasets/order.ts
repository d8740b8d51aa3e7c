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

/**
 * What is lost, by dataset and reason, most first; a loss of 0 events is one that nobody counted,
 * and stands first.
 */
export function lostBy(
  all: readonly Dataset[],
): { sentence: string; reason: string; events: number }[] {
  const rank = (events: number) => (events === 0 ? Number.POSITIVE_INFINITY : events);
  const sums = new Map<string, { sentence: string; reason: string; events: number }>();
  for (const { sentence, loss } of all) {
    for (const { reason, events } of loss ?? []) {
      const key = `${sentence}\n${reason}`;
      const sum = sums.get(key);
      // What nobody counted stays so, whatever was counted beside it.
      if (sum) sum.events = sum.events === 0 || events === 0 ? 0 : sum.events + events;
      else sums.set(key, { sentence, reason, events });
    }
  }
  return [...sums.values()].sort((a, b) =>
    rank(a.events) === rank(b.events) ? 0 : rank(b.events) - rank(a.events),
  );
}

/**
 * Those that have every word in their sentence, maker or state, in order; unknown last whichever
 * way, equals by their sentence.
 */
export function order(
  all: readonly Dataset[],
  find: string,
  column: Column,
  down: boolean,
): Dataset[] {
  const words = find.toLowerCase().split(/\s+/).filter(Boolean);
  const found = all.filter((d) =>
    words.every((w) => `${d.sentence} ${d.maker} ${d.state}`.toLowerCase().includes(w)),
  );
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
