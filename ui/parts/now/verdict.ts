// How old a verdict is, and whether the table below it says something else.

import type { Dated } from "../../data/api";
import { howLong } from "../../data/units";
import type { UseTable } from "../../data/use/shapes";
import { levelOf } from "../../data/use/table";
import { episodes } from "../findings/episodes";

/** Since when a verdict holds, in milliseconds; NaN: unknown. */
export interface Standing {
  /** Since when nothing is found. */
  fine: number;
  /** The verdict may be older: nothing is recorded before. */
  atLeast: boolean;
  /** Since when each finding lasts, by its id. */
  findings: ReadonlyMap<string, number>;
}

const startOf = (d: Dated): number => {
  const start = Date.parse(d.report.start);
  return Number.isNaN(start) ? d.at_ms : start;
};

/** Since when the newest diagnosis is as it is, by those of the time before it. */
export function standing(reports: readonly Dated[], newest: Dated): Standing {
  const all = reports.filter((d) => d.report && d.at_ms < newest.at_ms);
  all.push(newest);
  const findings = new Map<string, number>();
  for (const e of episodes(all)) if (e.lasts) findings.set(e.finding.id, e.from);
  for (const f of newest.report.findings ?? []) {
    const since = Date.parse(f.past?.since ?? "");
    if (!Number.isNaN(since)) findings.set(f.id, since);
  }
  let first = all.length - 1;
  const quiet = (d: Dated) => (d.report.findings ?? []).length + (d.report.held ?? []).length === 0;
  if (!quiet(newest)) return { fine: Number.NaN, atLeast: false, findings };
  while (first > 0 && quiet(all[first - 1]!)) first--;
  return { fine: startOf(all[first]!), atLeast: first === 0, findings };
}

/** A diagnosis of ten seconds comes each ten seconds: an older one is late. */
const late = 25_000;

/** How old a verdict is, in words; "" if it is new, or now is unknown (NaN). */
export function ageOf(end: number, now: number): string {
  const age = now - end;
  return age > late ? `${howLong(Math.round(age / 1000) * 1000)} ago` : "";
}

/** What of a resource is full, and how it is called. */
const words = ["full", "saturated", "stalled"] as const;

/**
 * What is full in a cell of the table, by default the one that is shown as now: "CPU full", "disk
 * vda saturated". A resource is named once, by the first of its columns that is marked as full.
 */
export function fullAt(table: UseTable, cell = table.newest): string[] {
  const full: string[] = [];
  for (const r of table.rows) {
    const marked = [r.utilization, r.saturation, r.stalled].findIndex(
      (m) => m !== null && m.what !== "" && levelOf(m, table, cell) === "hot",
    );
    if (marked >= 0) full.push([r.resource, r.name, words[marked]].filter(Boolean).join(" "));
  }
  return full;
}

/**
 * Since when something is full without a pause, in milliseconds: the end of the first such cell;
 * NaN when nothing is now.
 */
export function fullSince(table: UseTable): number {
  let first = Number.NaN;
  for (let c = table.newest; c >= 0 && fullAt(table, c).length > 0; c--)
    first = table.start + (c + 1) * table.step;
  return first;
}

/** How long after the end of a diagnosis the table may say something that it did not see. */
const seen = 5000;

/**
 * What remains of the verdict that nothing is wrong: it holds; it is withdrawn, as something has
 * become full since the diagnosis; or it holds although something is full.
 */
export function remains(
  end: number,
  full: readonly string[],
  since: number,
): "holds" | "withdrawn" | "although" {
  if (full.length === 0) return "holds";
  return since > end - seen ? "withdrawn" : "although";
}
