// The order of devices, and which of them are worth a row.

import type { Work } from "./metric";
import { lasting, type Use, type UseTable } from "./shapes";

/** The newest known value. */
export function last(values: ArrayLike<number>): number {
  for (let c = values.length - 1; c >= 0; c--) if (!Number.isNaN(values[c]!)) return values[c]!;
  return Number.NaN;
}

/** The greatest value; NaN when none is known. */
export function most(values: ArrayLike<number>): number {
  let m = Number.NaN;
  for (let c = 0; c < values.length; c++)
    if (!(values[c]! <= m) && !Number.isNaN(values[c]!)) m = values[c]!;
  return m;
}

/**
 * Devices by the most that they had in the time that is shown, so that rows stay where they are
 * from second to second: those unlike the others first, by the power of two of their score; then by
 * utilization, then by the bytes they carried. Unknown utilization stands
 * after known, unknown bytes after none; those that are gone come last.
 */
export function busiestFirst(w: Work, rows: Use[]): Use[] {
  const order = rows.map((r) => ({
    r,
    there: Number(there(r, w)),
    odd: magnitude(Math.abs(r.odd?.unlike.score ?? 0)),
    utilization: percents(most(r.utilization.values)),
    carried: magnitude(carried(r)),
  }));
  order.sort(
    (x, y) =>
      y.there - x.there ||
      y.odd - x.odd ||
      y.utilization - x.utilization ||
      y.carried - x.carried ||
      x.r.name.localeCompare(y.r.name, "en", { numeric: true }),
  );
  return order.map((x) => x.r);
}

/** The most that a device carried in one direction; NaN where nothing of it is known. */
const carried = (r: Use): number => most(r.carries.map((x) => most(x.metric.values)));

/** Whether a device was still there in the last ten seconds. */
export function there(u: Use, table: Pick<UseTable, "cells" | "step">): boolean {
  const from = Math.max(0, table.cells - Math.max(1, Math.round(lasting / table.step)));
  return [u.utilization, ...u.carries.map((c) => c.metric)].some((m) =>
    m.values.subarray(from).some((v) => !Number.isNaN(v)),
  );
}

/** Whole percents, unknown as less than none: small differences are no reason to change places. */
function percents(v: number): number {
  return Number.isNaN(v) ? -1 : Math.round(v * 100);
}

/** The power of two of an amount, unknown as less than none. */
function magnitude(v: number): number {
  return Number.isNaN(v) ? -1 : Math.round(Math.log2(1 + v));
}

/**
 * The devices of one resource that are worth a row, in their order: the first `few` of those
 * unlike the others, the busiest `few` of known utilization, and as many of those whose utilization
 * is unknown, as any of them may be the fullest. Idle ones are left out, except the first.
 */
export function worthShowing(
  rows: readonly Use[],
  table: Pick<UseTable, "cells" | "step">,
  few: number,
): Use[] {
  const present = rows.filter((r) => there(r, table));
  const odd = present.filter((r) => r.odd !== null); // also one that is idle while others are not
  const active = present.filter((r) => r.odd === null && used(r));
  const unknown = (r: Use): boolean => Number.isNaN(most(r.utilization.values));
  const busiest = new Set([
    ...odd.slice(0, few),
    ...active.filter((r) => !unknown(r)).slice(0, few),
    ...active.filter(unknown).slice(0, few),
  ]);
  const shown = rows.filter((r) => busiest.has(r));
  return shown.length > 0 ? shown : rows.slice(0, 1);
}

/** Whether a device did anything in the time that is shown. */
export function used(u: Use): boolean {
  return [u.utilization, u.saturation, u.errors, ...u.carries.map((c) => c.metric)].some(
    (m) => m !== null && most(m.values) > 0,
  );
}
