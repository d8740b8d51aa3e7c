import { describe, expect, it } from "vitest";
import { heatShare, mapPixels } from "./heatmap";

describe("a map of counts", () => {
  const s = {
    counts: Float64Array.of(1, 0, 100, 5, 0, 0),
    first: 10,
    rows: 3,
    most: 100,
    low: 9,
    high: 14,
  };
  it("has the highest bucket on top, and no colour without events", () => {
    const p = mapPixels(s, 0, 2, true);
    expect(p.length).toBe(10);
    const lit = [...p.keys()].filter((i) => p[i] !== 0);
    // Buckets 13, 12, 11, 10, 9 from the top, two cells each.
    expect(lit).toEqual([2, 6, 7]);
    expect(p[2]).not.toBe(p[6]);
    expect(p[7]).not.toBe(p[6]);
  });
  it("shows a part of the cells", () => {
    expect(
      [...mapPixels(s, 1, 2, true).keys()].filter((i) => mapPixels(s, 1, 2, true)[i] !== 0),
    ).toEqual([3]);
    expect(mapPixels(s, 2, 1, true).length).toBe(0);
  });
  it("colours by the log: one event is seen beside a million", () => {
    expect(heatShare(0, 1e6)).toBe(0);
    expect(heatShare(1, 1)).toBe(1);
    expect(heatShare(1, 1e6)).toBeGreaterThan(0.04);
    expect(heatShare(1000, 1e6)).toBeCloseTo(0.5, 2);
    expect(heatShare(1e6, 1e6)).toBe(1);
  });
});
