import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import type { Answer } from "./columns";
import { bucketStart, type Dist } from "./dist";
import {
  axisOf,
  bucketOf,
  cropAt,
  eventsAt,
  eventsIn,
  heatMarks,
  heatOf,
  lineAt,
  rectangleOf,
  valueAt,
} from "./heatmap";

/** A distribution of base 2 with n events at each value. */
function dist(...values: [number, number][]): Dist {
  const buckets = values.map(([v]) => bucketOf(2, v));
  const first = Math.min(...buckets);
  const counts = new Array<number>(Math.max(...buckets) - first + 1).fill(0);
  let sum = 0;
  for (const [i, [v, n]] of values.entries()) {
    counts[buckets[i]! - first]! += n;
    sum += v * n;
  }
  return { base: 2, first, counts, sum };
}

function answer(elapsed: number[]): Answer {
  return {
    query: "disk.latency",
    kind: "dist",
    unit: "ns",
    sparse: true,
    start: 1_000_000,
    step: 1000,
    elapsed: Float64Array.from(elapsed),
    by: [],
    series: [],
    rows: 0,
    rest: null,
    loss: [],
    notes: [],
  };
}

describe("the axis", () => {
  it("has the buckets of the server", () => {
    // As TestBuckets of measure has them: base 2, 8-9 is bucket 8, 16-19 is bucket 12.
    expect([0, 3, 4, 7, 8, 9, 10, 15, 16, 19, 20].map((v) => bucketOf(2, v))).toEqual([
      0, 3, 4, 7, 8, 8, 9, 11, 12, 12, 13,
    ]);
    for (let b = 0; b < 240; b++) {
      expect(bucketOf(2, bucketStart(2, b))).toBe(b);
      if (bucketStart(2, b + 1) < 2 ** 52)
        expect(bucketOf(2, bucketStart(2, b + 1) - 1), `end of ${b}`).toBe(b);
    }
  });
  it("goes from a value to a place and back, from 1 ns to 1 h", () => {
    let before = -1;
    for (const v of [0, 1, 5, 999, 1e3, 1.5e6, 3.6e12]) {
      expect(axisOf(2, v)).toBeGreaterThan(before);
      before = axisOf(2, v);
      expect(valueAt(2, before)).toBeCloseTo(v, v > 1e6 ? -3 : 6);
    }
  });
  it("is marked at powers of ten, as many as fit", () => {
    const all = heatMarks({ base: 2 }, "ns", 0, bucketOf(2, 3.6e12) + 1, 20);
    expect(all.map((m) => m.label)).toEqual(
      "1 ns,10 ns,100 ns,1 µs,10 µs,100 µs,1 ms,10 ms,100 ms,1 s,10 s,100 s,1000 s".split(","),
    );
    const few = heatMarks({ base: 2 }, "ns", 0, bucketOf(2, 3.6e12) + 1, 5);
    expect(few.length).toBeLessThanOrEqual(5);
    expect(few.at(-1)?.label).toBe("1000 s");
    expect(heatMarks({ base: 2 }, "ns", bucketOf(2, 2000), bucketOf(2, 3000), 5)).toHaveLength(2);
    expect(heatMarks({ base: 2 }, "B", 0, bucketOf(2, 2 ** 21), 9).map((m) => m.label)).toEqual([
      "1 B",
      "1 KiB",
      "1 MiB",
    ]);
  });
});

describe("a map", () => {
  const a = answer([1000, 0, 1000, 1000]);
  const fast: (Dist | null)[] = [dist([50_000, 190]), null, dist([50_000, 150]), null];
  const slow: (Dist | null)[] = [dist([20_000_000, 10]), null, null, null];
  const h = heatOf(a, [fast, slow]);

  it("keeps each event, and knows a gap from a second without events", () => {
    expect(h.all).toBe(350);
    expect(h.counts.reduce((n, c) => n + c, 0)).toBe(350);
    expect([...h.totals]).toEqual([200, Number.NaN, 150, 0]);
    expect(eventsAt(h, { cell: 1, bucket: h.first })).toBeNull();
    expect(eventsAt(h, { cell: 3, bucket: h.first })).toEqual({ events: 0, share: 0 });
    expect(eventsAt(h, { cell: 0, bucket: bucketOf(2, 20_000_000) })).toEqual({
      events: 10,
      share: 0.05,
    });
    expect(eventsAt(h, { cell: 0, bucket: 0 })).toEqual({ events: 0, share: 0 });
    expect(eventsAt(h, { cell: 9, bucket: 0 })).toBeNull();
  });
  it("has percentiles where there were events", () => {
    expect(h.p50[0]).toBeGreaterThan(49_151);
    expect(h.p50[0]).toBeLessThan(57_344);
    expect(h.p99[0]).toBeGreaterThan(18_874_367);
    expect(h.max[0]).toBe(20_971_520);
    expect([h.p50[1], h.p50[3], h.max[3]]).toEqual([Number.NaN, Number.NaN, Number.NaN]);
    expect(lineAt(h, "max")[0]).toBe(bucketOf(2, 20_000_000) + 1);
  });
  it("is cut by its share of events, never by more", () => {
    expect(cropAt(h, 0)).toEqual({ end: bucketOf(2, 20_000_000) + 1, cut: 0 });
    expect(cropAt(h, 9.9 / 350).cut).toBe(0);
    expect(cropAt(h, 10 / 350)).toEqual({ end: bucketOf(2, 50_000) + 1, cut: 10 });
    expect(cropAt(h, 1).end).toBe(h.first + 1);
    expect(cropAt(heatOf(a, []), 0.05)).toEqual({ end: 0, cut: 0 });
  });
  it("looks only at the cells in sight", () => {
    const part = heatOf(a, [fast, slow], 2, 4);
    expect([part.all, part.first, part.rows]).toEqual([150, bucketOf(2, 50_000), 1]);
  });
  it("chooses whole cells and buckets, in whichever direction", () => {
    const low = { cell: 2, bucket: bucketOf(2, 20_000_000) };
    const high = { cell: 0, bucket: bucketOf(2, 50_000) };
    const r = rectangleOf(a, h, low, high);
    expect(r).toEqual({ from: 1_000_000, to: 1_003_000, low: 49_152, high: 20_971_520 });
    expect(rectangleOf(a, h, high, low)).toEqual(r);
    expect(eventsIn(a, h, r)).toBe(350);
    expect(eventsIn(a, h, { ...r, low: 57_344 })).toBe(10);
    expect(eventsIn(a, h, { ...r, from: 1_002_000 })).toBe(150);
  });
  it("is empty without rows and with empty distributions", () => {
    for (const rows of [[], [[{ base: 2, first: 5, counts: [0, 0], sum: 0 }, null, null, null]]]) {
      const none = heatOf(a, rows);
      expect([none.rows, none.all, none.counts.length]).toEqual([0, 0, 0]);
      expect(none.totals[0]).toBe(0);
    }
  });
});

interface Given {
  base: number;
  columns: {
    elapsed_ms: number;
    first: number;
    counts: number[] | null;
    total: number;
    p50: number | null;
    p90: number | null;
    p99: number | null;
    max: number | null;
  }[];
  crops: { share: number; end: number; cut: number }[];
}

it("has the numbers of the server's heat maps", () => {
  const file = join(import.meta.dirname, "testdata", "heat.json");
  const all = JSON.parse(readFileSync(file, "utf8")) as Given[];
  expect(all.length).toBe(3);
  for (const given of all) {
    const a = answer(given.columns.map((c) => c.elapsed_ms));
    const row = given.columns.map((c) =>
      c.counts ? { base: given.base, first: c.first, counts: c.counts, sum: 0 } : null,
    );
    const h = heatOf(a, [row]);
    for (const [i, c] of given.columns.entries()) {
      expect(h.totals[i]).toBe(c.elapsed_ms > 0 ? c.total : Number.NaN);
      for (const name of ["p50", "p90", "p99", "max"] as const)
        expect(h[name][i], `base ${given.base}, column ${i}, ${name}`).toBe(c[name] ?? Number.NaN);
    }
    for (const c of given.crops)
      expect(cropAt(h, c.share), `base ${given.base}, ${c.share}`).toEqual({
        end: c.end,
        cut: c.cut,
      });
  }
});
