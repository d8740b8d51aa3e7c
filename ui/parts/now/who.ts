// Who uses the machine: the largest processes, connections and disk users of a time.

import type { When } from "../../data/ask";
import type { Answer } from "../../data/columns";
import { type Moments, type Range, second, stretch } from "../../state/time";

/** What is asked, and in which words. */
export const whoAsks = [
  { title: "Processes by CPU", sentence: "process.cpu by process" },
  { title: "Connections by bytes", sentence: "tcp.flow.bytes by process,peer" },
  { title: "Disk users", sentence: "process.io by process,direction" },
] as const;

/** Rows of each list. */
export const few = 5;

/** The time that a live list is of: as long as a diagnosis looks. */
const window = 10 * second;

/**
 * The time of the lists: what is shown; of what goes on the seconds of the diagnosis above them,
 * and before there is one the newest.
 */
export function whoTime(range: Range, now: number, diagnosed: Moments | null = null): Moments {
  if (range.kind === "past") return stretch(range, now);
  if (diagnosed) return diagnosed;
  return { from: now - Math.min(window, range.span), to: now };
}

/** How the lists are asked for: one cell, with some rows more than are shown. */
export const whoWhen = ({ from, to }: Moments): When => ({
  from,
  to,
  step: to - from,
  top: 4 * few,
});

export interface User {
  id: string;
  labels: string[];
  value: number;
  /** Of the greatest value of the list: 0 to 1. */
  share: number;
}

/** The largest rows of an answer of one cell; rows without a value, or with 0, are nobody. */
export function users(a: Answer): User[] {
  const rows = a.series
    .map((s) => ({ id: s.id, labels: s.key, value: s.values[0] ?? Number.NaN }))
    .filter((r) => r.value > 0)
    .sort((x, y) => y.value - x.value || (x.id < y.id ? -1 : 1))
    .slice(0, few);
  const most = rows[0]?.value ?? 1;
  return rows.map((r) => ({ ...r, share: r.value / most }));
}
