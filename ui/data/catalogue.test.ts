// Properties of the page that hold for each statistic of the server, on a copy of its catalogue (cmd/culprit, TestPageCatalogue).

import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import type { Stat } from "./api";
import { addsUp, type Drill, drills, parse, stacks, type Term, termText } from "./drill";

interface Entry {
  stat: Stat;
  /** For some terms whether the rows add up, as the server decides it: a letter for each field and one for all fields. */
  adds: Record<string, string> | null;
}

const entries = JSON.parse(readFileSync(join(import.meta.dirname, "testdata", "catalogue.json"), "utf8")) as Entry[];
const stats = entries.map((e) => e.stat);
const fieldsOf = (s: Stat): string[] => (s.fields ?? []).map((f) => f.name);

/** Fields whose values mean the same in every statistic. */
const shared = ["netns", "pid", "process", "tid", "thread", "cpu", "cgroup", "peer", "peerport", "local", "localport", "mount"];

const byId = new Map(stats.map((s) => [s.id, s]));

/** What a drill does wrong with some terms: a term is carried, or where the other statistic has no such field, named. */
function faults(d: Drill, terms: readonly Term[]): string[] {
  const { stat, where } = parse(d.sentence)!;
  const carried = new Set(where.map(termText));
  const out: string[] = [];
  for (const term of terms) {
    const text = termText(term);
    if (carried.has(text)) continue;
    if (shared.includes(term.field) && fieldsOf(byId.get(stat)!).includes(term.field)) out.push(`${text} is not carried: ${d.sentence}`);
    else if (!d.title.includes(text)) out.push(`${text} is neither carried nor named: ${d.title}`);
  }
  return out;
}

describe("each statistic of the catalogue", () => {
  it("is in the copy", () => expect(stats.length).toBeGreaterThan(100));

  it("adds up on the page where it does on the server", { timeout: 60_000 }, () => {
    let some = 0;
    for (const { stat, adds } of entries) {
      const by = fieldsOf(stat).map((f) => [f]);
      by.push(fieldsOf(stat));
      for (const [where, want] of Object.entries(adds ?? {})) {
        for (const [i, b] of by.entries()) {
          const text = `${stat.id} by ${b.join(",")}${where === "" ? "" : ` where ${where}`}`;
          expect(addsUp(parse(text)!, stat), text).toBe(want[i] === "1");
          expect(stacks(parse(text)!, stat) && want[i] !== "1", `${text} stacks`).toBe(false);
          some++;
        }
      }
    }
    expect(some).toBeGreaterThan(1000);
  });

  it("leads to each other statistic with each term of its row and graph, or names the term", { timeout: 120_000 }, () => {
    const found: string[] = [];
    let some = 0;
    for (const own of stats) {
      const by = fieldsOf(own);
      // A row by all fields, and a row by each of them in a graph that is narrowed by the others.
      for (const one of [by, ...by.map((f) => [f])]) {
        const where = by.filter((f) => !one.includes(f)).map((field): Term => ({ field, op: "~", values: [`${field}*`] }));
        // The machine's own namespace has an empty name.
        const row = one.map((field): Term => ({ field, op: "=", values: [field === "netns" ? "" : `the ${field}`] }));
        for (const d of drills(
          { stat: own.id, by: one, where },
          row.map((t) => t.values[0]!),
          stats,
        )) {
          found.push(...faults(d, [...row, ...where]).map((f) => `${own.id} by ${one.join(",")}: ${f}`));
          some++;
        }
      }
    }
    expect(found.slice(0, 5)).toEqual([]);
    expect(some).toBeGreaterThan(1000);
  });
});
