// Utilization, saturation and errors of every resource, worked out of answers as `culprit use`,
// `disk` and `nic` do it. Pure.

import type { Answer } from "../columns";
import { diskRows, netRows } from "./devices";
import { cpuRows, memoryRow } from "./machine";
import { Work } from "./metric";
import { type Asked, type Level, lasting, type Metric, type UseTable } from "./shapes";

/**
 * The level of a number in a cell, by default in the one that is now: it is so, and was so in the
 * mean of the last ten seconds. Of what should not be at all - errors, drops - the mean alone
 * counts: a moment of it is to be seen. What is unknown in the cell is calm.
 */
export function levelOf(
  m: Metric,
  table: Pick<UseTable, "newest" | "step">,
  cell = table.newest,
): Level {
  const values = m.marked ?? m.values;
  const cells = Math.max(1, Math.round(lasting / table.step));
  let sum = 0;
  let n = 0;
  for (let c = Math.max(0, cell - cells + 1); c <= cell; c++) {
    const v = values[c]!;
    if (Number.isNaN(v)) continue;
    sum += v;
    n++;
  }
  const mean = n > 0 ? sum / n : Number.NaN;
  const now = values[cell]!;
  const least = m.warm > Number.MIN_VALUE && !(now >= mean) ? now : mean;
  return least >= m.hot ? "hot" : least >= m.warm ? "warm" : "calm";
}

/** How old a number may be that is shown as now, in milliseconds. */
const stale = 5000;

/** The newest cell of a grid that an answer has measured; -1: none. */
function measured(grid: Answer, a: Answer): number {
  const shift = Math.round((grid.start - a.start) / grid.step);
  let c = grid.elapsed.length - 1;
  while (c >= 0 && !(a.elapsed[c + shift]! > 0)) c--;
  return c;
}

/**
 * The cell that is shown as now: the newest that all answers have. An answer that has nothing of
 * the last seconds is not waited for: its numbers are unknown. Where that reading has nothing of
 * the CPUs, it is one of the few seconds before, if that has.
 */
function newestOf(a: Asked, grid: Answer): number {
  const all = Object.values(a).map((x) => measured(grid, x));
  const last = Math.max(-1, ...all);
  const newest = Math.min(last, ...all.filter((c) => c >= 0 && (last - c) * grid.step <= stale));
  if (!a.cpu) return newest;
  for (let c = newest; c >= 0 && (newest - c) * grid.step <= stale; c--)
    if (a.cpu.series.some((s) => !Number.isNaN(s.values[c]!))) return c;
  return newest;
}

/**
 * The table of the answers, on the grid of the CPU time's. An answer that is missing leaves its
 * numbers unknown.
 */
export function useTable(a: Asked, cpus: number): UseTable {
  const grid = a.cpu ?? Object.values(a).find((x) => x !== undefined);
  if (!grid) return { start: 0, step: 1000, cells: 0, newest: -1, took: 0, rows: [], losses: [] };
  const cells = grid.elapsed.length;
  const newest = newestOf(a, grid);
  const w = new Work(grid.start, grid.step, cells, newest);
  const rows = [...cpuRows(w, a, cpus), memoryRow(w, a), ...diskRows(w, a), ...netRows(w, a)];
  const losses = new Map<string, number>();
  for (const x of Object.values(a))
    for (const l of x?.loss ?? [])
      losses.set(l.reason, Math.max(losses.get(l.reason) ?? 0, l.events));
  return {
    start: grid.start,
    step: grid.step,
    cells,
    newest,
    took: grid.elapsed[newest] ?? 0,
    rows,
    losses: [...losses].map(([reason, events]) => ({ reason, events })),
  };
}
