// Utilization, saturation and errors of every resource, worked out of answers as `culprit use`,
// `disk` and `nic` do it. Pure.

import { diskRows, netRows } from "./devices";
import { cpuRows, memoryRow } from "./machine";
import { Work } from "./metric";
import { type Asked, type Level, lasting, type Metric, type UseTable } from "./shapes";

/**
 * The level of a number now: it is so, and was so in the mean of the last ten seconds. Of what
 * should not be at all - errors, drops - the mean alone counts: a moment of it is to be seen.
 * Unknown is calm.
 */
export function levelOf(m: Metric, table: Pick<UseTable, "newest" | "step">): Level {
  const cells = Math.max(1, Math.round(lasting / table.step));
  let sum = 0;
  let n = 0;
  for (let c = Math.max(0, table.newest - cells + 1); c <= table.newest; c++) {
    const v = m.values[c]!;
    if (Number.isNaN(v)) continue;
    sum += v;
    n++;
  }
  const mean = n > 0 ? sum / n : Number.NaN;
  const now = m.values[table.newest]!;
  const least = m.warm > Number.MIN_VALUE && now < mean ? now : mean;
  return least >= m.hot ? "hot" : least >= m.warm ? "warm" : "calm";
}

/** How old a number may be that is shown as now, in milliseconds. */
const stale = 5000;

/**
 * The table of the answers, on the grid of the CPU time's. An answer that is missing leaves its
 * numbers unknown.
 */
export function useTable(a: Asked, cpus: number): UseTable {
  const grid = a.cpu ?? Object.values(a).find((x) => x !== undefined);
  if (!grid) return { start: 0, step: 1000, cells: 0, newest: -1, rows: [], losses: [] };
  const cells = grid.elapsed.length;
  const w = new Work(grid.start, grid.step, cells);
  const rows = [...cpuRows(w, a, cpus), memoryRow(w, a), ...diskRows(w, a), ...netRows(w, a)];
  // The newest that was measured; where that reading has nothing of the CPUs, one of the few
  // seconds before, if it has.
  let newest = cells - 1;
  while (newest >= 0 && !(grid.elapsed[newest]! > 0)) newest--;
  const busy = rows[0]!.utilization.values;
  for (let c = newest; c >= 0 && (newest - c) * grid.step <= stale; c--) {
    if (!Number.isNaN(busy[c]!)) {
      newest = c;
      break;
    }
  }
  const losses = new Map<string, number>();
  for (const x of Object.values(a))
    for (const l of x?.loss ?? [])
      losses.set(l.reason, Math.max(losses.get(l.reason) ?? 0, l.events));
  return {
    start: grid.start,
    step: grid.step,
    cells,
    newest,
    rows,
    losses: [...losses].map(([reason, events]) => ({ reason, events })),
  };
}
