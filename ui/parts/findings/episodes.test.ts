import { expect, it } from "vitest";
import type { Dated, Finding, Missing, Severity } from "../../data/api";
import { episodes, lanesOf, search } from "./episodes";
import { notChecked } from "./report";

const start = Date.parse("2026-11-21T12:00:00Z");
const finding = (
  id: string,
  severity: Severity = "medium",
  explains: number | null = null,
): Finding => ({
  id,
  rule: id,
  severity,
  confidence: 1,
  culprit: { kind: "cpu", name: "0" },
  claim: `${id} is the culprit`,
  explains,
  evidence: [
    {
      text: "0 % idle",
      statistic: "cpu.time by mode",
      value: 0,
      unit: "ratio",
      over: ["", ""],
      compared_with: null,
    },
  ],
  symptoms: null,
  exonerated: null,
  against: null,
  verify: "",
  fix: null,
});
/** A diagnosis at so many seconds, of the ten seconds before. */
const at = (s: number, ...findings: Finding[]): Dated => ({
  at_ms: start + s * 1000,
  report: {
    start: new Date(start + s * 1000 - 10_000).toISOString(),
    end: new Date(start + s * 1000).toISOString(),
    host: "h",
    findings,
    checked: ["cpu"],
    fine: null,
    missing: null,
    notes: null,
  },
});
const episodeTexts = (reports: Dated[]) =>
  episodes(reports).map((e) => [
    e.finding.id,
    (e.from - start) / 1000,
    (e.to - start) / 1000,
    e.times,
    e.lasts,
  ]);

it("joins what lasts, and ends it with the first diagnosis that lacks it", () => {
  expect(
    episodeTexts([
      at(10, finding("a")),
      at(20, finding("a"), finding("b")),
      at(30, finding("b")),
      at(40),
      at(50, finding("a")),
    ]),
  ).toEqual([
    ["a", 40, 50, 1, true],
    ["b", 10, 30, 2, false],
    ["a", 0, 20, 2, false],
  ]);
});

it("one that lasts is one episode where diagnoses are rare", () => {
  const lasting = (since: number): Finding => ({
    ...finding("a"),
    past: {
      since: new Date(start + since * 1000).toISOString(),
      share: 1,
      seen: "",
      confirmed: true,
      returns: 0,
      last_good: null,
      days: 0,
      days_found: 0,
    },
  });
  const keys = (...list: Dated[]) => episodes(list).map((e) => [e.from, e.to]);
  const seconds = (from: number, to: number) => [start + from * 1000, start + to * 1000];
  expect(keys(at(10, lasting(0)), at(130, lasting(0)), at(260, lasting(0)))).toEqual([
    seconds(0, 260),
  ]);
  expect(keys(at(10, lasting(0)), at(130, lasting(120)))).toEqual([
    seconds(120, 130),
    seconds(0, 10),
  ]);
});

it("does not go on over a silence", () => {
  expect(episodeTexts([at(10, finding("a")), at(70, finding("a")), at(300, finding("a"))])).toEqual(
    [
      ["a", 290, 300, 1, true],
      ["a", 0, 70, 2, false],
    ],
  );
});

it("shows a finding as it was when it was worst", () => {
  const [e] = episodes([
    at(10, finding("a", "medium")),
    at(20, finding("a", "high", 0.4)),
    at(30, finding("a", "high", 0.9)),
    at(40, finding("a", "low", 1)),
  ]);
  expect(e!.finding).toMatchObject({ severity: "high", explains: 0.9 });
});

it("takes an unknown share as less than any, of the same severity", () => {
  const worst = (...list: Finding[]) =>
    episodes(list.map((f, i) => at(10 * (i + 1), f)))[0]!.finding;
  const [unknown, none, some] = [
    finding("a"),
    finding("a", "medium", 0),
    finding("a", "medium", 0.2),
  ];
  for (const list of [
    [unknown, none],
    [none, unknown],
  ])
    expect(worst(...list)).toBe(none);
  expect(worst(some, unknown, none)).toBe(some);
  const takes = { ...unknown, effect: 0.3 };
  expect(worst(takes, some), "the time that it takes goes first").toBe(takes);
  expect(worst(finding("a", "low", 1), unknown)).toBe(unknown);
});

it("has nothing of nothing, and finds by words of the evidence", () => {
  expect(episodes([])).toEqual([]);
  const list = episodes([at(10, finding("alpha"), finding("bravo"))]);
  expect(search(list, "IDLE bravo").map((e) => e.finding.id)).toEqual(["bravo"]);
  expect(search(list, "disk")).toEqual([]);
});

it("has a lane for each culprit, and one for all beyond so many", () => {
  const list = episodes([
    at(10, finding("a"), finding("b"), finding("c"), finding("d")),
    at(600, finding("a")),
  ]);
  const episodeTexts = (most: number) =>
    lanesOf(list, most).map((l) => `${l.name}: ${l.episodes.length}`);
  expect(episodeTexts(4)).toEqual(["a: 2", "b: 1", "c: 1", "d: 1"]);
  expect(episodeTexts(3)).toEqual(["a: 2", "b: 1", "2 others: 2"]);
  expect(lanesOf(list, 3).at(-1)!.ids).toEqual(["c", "d"]);
  expect(lanesOf([], 3)).toEqual([]);
});

it("says once what was not checked", () => {
  const m = (checks: string, statistic: string, why: string): Missing => ({
    rule: "r",
    checks,
    statistic,
    why,
  });
  expect(
    notChecked([
      m("disk", "disk.busy", "denied"),
      m("disk", "disk.queue", "denied"),
      m("swap", "", "no swap"),
      m("disk", "disk.x", "other"),
      m("memory", "memory.size", "denied"),
      m("zswap", "", "no swap"),
    ]),
  ).toEqual([
    "disk, memory: several statistics are missing: denied",
    "swap, zswap: no swap",
    "disk: not checked, disk.x is missing: other",
  ]);
});
