// The table of functions: its order, and the same as CSV.

import type { Changes } from "../../data/api";
import type { Rows } from "../../data/calls";
import { type Functions, kindOf, placeOf } from "../../data/profile";
import type { functionColumns } from "../../state/place";

export type Column = (typeof functionColumns)[number];

/**
 * The functions that have anything and were found, in the order of a column; down turns the order
 * of the column round.
 */
export function order(
  f: Functions,
  rows: Rows,
  found: Uint8Array | null,
  column: Column,
  turned: boolean,
): number[] {
  const out: number[] = [];
  for (let i = 1; i < rows.total.length; i++) {
    const any = rows.total[i]! > 0 || (rows.before?.total[i] ?? 0) > 0;
    if (any && (!found || found[i])) out.push(i);
  }
  const { self, total, before } = rows;
  const name = (a: number, b: number) =>
    f.names[a]! < f.names[b]! ? -1 : f.names[a]! > f.names[b]! ? 1 : a - b;
  const by: Record<Column, (a: number, b: number) => number> = {
    self: (a, b) => self[b]! - self[a]! || total[b]! - total[a]! || name(a, b),
    total: (a, b) => total[b]! - total[a]! || self[b]! - self[a]! || name(a, b),
    name,
    module: (a, b) => {
      const x = f.modules[f.module[a]!]!;
      const y = f.modules[f.module[b]!]!;
      return (x < y ? -1 : x > y ? 1 : 0) || self[b]! - self[a]! || name(a, b);
    },
    change: (a, b) =>
      before
        ? Math.abs(self[b]! - before.self[b]!) - Math.abs(self[a]! - before.self[a]!) ||
          Math.abs(total[b]! - before.total[b]!) - Math.abs(total[a]! - before.total[a]!) ||
          name(a, b)
        : self[b]! - self[a]! || name(a, b),
  };
  out.sort(by[column]);
  return turned ? out.reverse() : out;
}

/** The functions as CSV (RFC 4180), numbers with all their digits. */
export function csvOf(f: Functions, rows: Rows, list: readonly number[], unit: string): string {
  const q = quoted;
  const b = rows.before;
  const head = b
    ? [
        "function",
        "place",
        "kind",
        `self before (${unit})`,
        `self (${unit})`,
        `total before (${unit})`,
        `total (${unit})`,
      ]
    : ["function", "place", "kind", `self (${unit})`, `total (${unit})`];
  const lines = list.map((i) =>
    [
      q(f.names[i]!),
      q(placeOf(f, i)),
      kindOf(f, i),
      ...(b
        ? [b.self[i]!, rows.self[i]!, b.total[i]!, rows.total[i]!]
        : [rows.self[i]!, rows.total[i]!]),
    ].join(","),
  );
  return `${[head.map(q).join(","), ...lines].join("\r\n")}\r\n`;
}

/** A comparison as CSV. */
export function changesCSV(c: Changes): string {
  const head =
    "function,module,self before,self after,total before,total after,explains,explains with what it calls,sigma,sigma with what it calls,confidence";
  const lines = c.functions.map((f) =>
    [
      quoted(f.function),
      quoted(f.module ?? ""),
      f.self_before,
      f.self_after,
      f.total_before,
      f.total_after,
      f.explains_self,
      f.explains_total,
      f.sigma_self ?? "",
      f.sigma_total ?? "",
      f.confidence ?? "",
    ].join(","),
  );
  return `${[head, ...lines].join("\r\n")}\r\n`;
}

function quoted(s: string): string {
  return /[",\r\n]/.test(s) || /^[=+\-@]/.test(s) ? `"${s.replaceAll('"', '""')}"` : s;
}
