import { describe, expect, it } from "vitest";
import type { Dated, Finding } from "../../data/api";
import type { Metric, Use, UseTable } from "../../data/use/shapes";
import { ageOf, fullAt, fullSince, remains, standing } from "./verdict";

/** A diagnosis of ten seconds that ends at a second, with findings. */
function dated(at: number, ...ids: string[]): Dated {
  return {
    at_ms: at * 1000,
    report: {
      start: new Date((at - 10) * 1000).toISOString(),
      end: new Date(at * 1000).toISOString(),
      findings: ids.map((id) => ({ id, severity: "high" }) as Finding),
    },
  } as unknown as Dated;
}

describe("a verdict", () => {
  it("that nothing is wrong holds since the last finding ended", () => {
    const s = standing([dated(20), dated(40, "a"), dated(60), dated(80)], dated(100));
    expect([s.fine, s.atLeast]).toEqual([50_000, false]);
  });
  it("may be older than what is recorded", () => {
    expect(standing([dated(20)], dated(100))).toMatchObject({ fine: 10_000, atLeast: true });
  });
  it("has the age of each finding", () => {
    const s = standing([dated(20), dated(40, "a"), dated(60, "a", "b")], dated(80, "a", "b"));
    expect([...s.findings]).toEqual([
      ["b", 50_000],
      ["a", 30_000],
    ]);
    expect(s.fine).toBeNaN();
  });
  it("begins anew where a finding was gone for a while", () => {
    const s = standing([dated(20, "a"), dated(40), dated(60, "a")], dated(70, "a"));
    expect(s.findings.get("a")).toBe(50_000);
  });
  it("does not look ahead of the newest", () => {
    expect(standing([dated(60), dated(90, "a")], dated(70)).fine).toBe(50_000);
  });
});

it("has its age where it is late, and none where now is unknown", () => {
  expect(ageOf(100_000, 125_000)).toBe("");
  expect(ageOf(100_000, 125_400)).toBe("25 s ago");
  expect(ageOf(100_000, 190_000)).toBe("1 min 30 s ago");
  expect(ageOf(100_000, Number.NaN)).toBe("");
});

it("is withdrawn when a resource becomes full after it", () => {
  expect(remains(100_000, [], Number.NaN)).toBe("holds");
  expect(remains(100_000, ["CPU"], 103_000)).toBe("withdrawn");
  expect(remains(100_000, ["CPU"], 95_001)).toBe("withdrawn");
  expect(remains(100_000, ["CPU"], 95_000)).toBe("although");
});

/** A table of seconds from 100 s on, with one resource. */
function table(
  part: Partial<Record<"utilization" | "saturation" | "stalled", number[]>>,
): UseTable {
  const metric = (values: number[] = []): Metric => ({
    values: Float64Array.from({ length: 20 }, (_, c) => values[c] ?? 0),
    unit: "ratio",
    what: "x",
    sentence: "",
    warm: 0.7,
    hot: 0.9,
    top: 1,
  });
  const use = {
    resource: "Disk",
    name: "vda",
    utilization: metric(part.utilization),
    saturation: metric(part.saturation),
    stalled: metric(part.stalled),
  } as Use;
  return { start: 100_000, step: 1000, cells: 20, newest: 19, took: 1000, rows: [use], losses: [] };
}

it("says of a resource which column is marked, in the cell that the table shows", () => {
  const ones = new Array(20).fill(1);
  expect(fullAt(table({ utilization: ones, saturation: ones }))).toEqual(["Disk vda full"]);
  expect(fullAt(table({ saturation: ones, stalled: ones }))).toEqual(["Disk vda saturated"]);
  expect(fullAt(table({ stalled: ones }))).toEqual(["Disk vda stalled"]);
  const ended = table({ utilization: ones.slice(0, 19) });
  expect(fullAt(ended)).toEqual([]);
  expect(fullAt(ended, 18)).toEqual(["Disk vda full"]);
});

it("is full since the first cell without a pause", () => {
  expect(fullSince(table({}))).toBeNaN();
  expect(fullSince(table({ utilization: new Array(20).fill(1) }))).toBe(101_000);
  // A mean of ten seconds is full one second after they were.
  const late = Array.from({ length: 20 }, (_, c) => (c >= 8 ? 1 : 0));
  expect(fullSince(table({ utilization: late }))).toBe(117_000);
});
