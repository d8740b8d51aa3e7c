// Properties of the page that hold for each statistic of the server, on a copy of its catalogue
// (cmd/culprit, TestPageCatalogue).

import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import type { Stat } from "./api";
import {
  addsUp,
  type Drill,
  drills,
  parse,
  type Sentence,
  stacks,
  type Term,
  termText,
  widerText,
} from "./drill";

interface Entry {
  stat: Stat;
  /**
   * For some terms whether the rows add up, as the server decides it: a letter for each field and
   * one for all fields.
   */
  adds: Record<string, string> | null;
}

const entries = JSON.parse(
  readFileSync(join(import.meta.dirname, "testdata", "catalogue.json"), "utf8"),
) as Entry[];
const stats = entries.map((e) => e.stat);
const fieldsOf = (s: Stat): string[] => (s.fields ?? []).map((f) => f.name);

/** Fields whose values mean the same in every statistic. */
const shared = [
  "netns",
  "pid",
  "process",
  "tid",
  "thread",
  "cpu",
  "cgroup",
  "peer",
  "peerport",
  "local",
  "localport",
  "mount",
];

const byId = new Map(stats.map((s) => [s.id, s]));

/**
 * What a drill does wrong with some terms: a term is carried, or where the other statistic has no
 * such field, named.
 */
function faults(d: Drill, terms: readonly Term[]): string[] {
  const { stat, where } = parse(d.sentence)!;
  const carried = new Set(where.map(termText));
  const out: string[] = [];
  for (const term of terms) {
    const text = termText(term);
    if (carried.has(text)) continue;
    if (shared.includes(term.field) && fieldsOf(byId.get(stat)!).includes(term.field))
      out.push(`${text} is not carried: ${d.sentence}`);
    else if (!d.title.includes(text)) out.push(`${text} is neither carried nor named: ${d.title}`);
    else if (!widerText(d.wider).includes(text))
      out.push(`${text} is not named by the graph: ${widerText(d.wider)}`);
  }
  return out;
}

/** Fields whose values mean something within a network namespace only. */
const perNamespace = ["device", "address", "local", "localport", "peer", "peerport"];

/**
 * Whether one row of a sentence may be of things of several network namespaces that have the same
 * name.
 */
function mixesNamespaces(text: string): boolean {
  const { stat, by, where } = parse(text)!;
  const pinned = where.filter((t) => t.op === "=").map((t) => t.field);
  const named = [...by, ...pinned];
  return (
    fieldsOf(byId.get(stat)!).includes("netns") &&
    !named.includes("netns") &&
    named.some((f) => perNamespace.includes(f))
  );
}

/**
 * Each row by all fields of a statistic, and by each of them in a graph that is narrowed by the
 * others.
 */
function rows(own: Stat): { q: Sentence; row: Term[] }[] {
  const by = fieldsOf(own);
  return [by, ...by.map((f) => [f])].map((one) => ({
    q: {
      stat: own.id,
      by: one,
      where: by
        .filter((f) => !one.includes(f))
        .map((field): Term => ({ field, op: "~", values: [`${field}*`] })),
    },
    // The machine's own namespace has an empty name.
    row: one.map(
      (field): Term => ({ field, op: "=", values: [field === "netns" ? "" : `the ${field}`] }),
    ),
  }));
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

  it("leads to each other statistic with each term of its row and graph, or names the term", {
    timeout: 120_000,
  }, () => {
    const found: string[] = [];
    let some = 0;
    for (const own of stats) {
      for (const { q, row } of rows(own)) {
        const key = row.map((t) => t.values[0]!);
        for (const d of drills(q, key, stats)) {
          found.push(
            ...faults(d, [...row, ...q.where]).map((f) => `${own.id} by ${q.by.join(",")}: ${f}`),
          );
          some++;
        }
      }
    }
    expect(found.slice(0, 5)).toEqual([]);
    expect(some).toBeGreaterThan(1000);
  });

  it("leads back to itself with the terms that the statistic between had no field for", {
    timeout: 120_000,
  }, () => {
    const found: string[] = [];
    let some = 0;
    for (const own of stats) {
      const { q, row } = rows(own)[0]!;
      const there = drills(
        q,
        row.map((t) => t.values[0]!),
        stats,
      ).filter((d) => !d.same);
      for (const d of there) {
        const between = parse(d.sentence)!;
        const key = between.by.map((f) => `the ${f}`);
        const back = drills(between, key, stats, d.wider).find(
          (b) => parse(b.sentence)!.stat === own.id,
        );
        if (!back) continue;
        const has = new Set(parse(back.sentence)!.where.map(termText));
        found.push(
          ...row
            .map(termText)
            .filter((t) => !has.has(t))
            .map((t) => `${d.sentence} -> ${back.sentence}: ${t} is lost`),
        );
        some++;
      }
    }
    expect(found.slice(0, 5)).toEqual([]);
    expect(some).toBeGreaterThan(500);
  });

  it("leads to rows of one network namespace each, where names are unique in a namespace only", {
    timeout: 120_000,
  }, () => {
    const found: string[] = [];
    let some = 0;
    for (const own of stats) {
      for (const by of fieldsOf(own)) {
        for (const d of drills({ stat: own.id, by: [by], where: [] }, ["x"], stats)) {
          if (mixesNamespaces(d.sentence)) found.push(`${own.id} by ${by}: ${d.sentence}`);
          some++;
        }
      }
    }
    expect(found.slice(0, 5)).toEqual([]);
    expect(some).toBeGreaterThan(1000);
  });
});
