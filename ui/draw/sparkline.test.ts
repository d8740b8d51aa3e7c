import { describe, expect, it } from "vitest";
import { sparkRuns } from "./sparkline";

describe("sparkline", () => {
  it("breaks at what was not measured, and shows a lone value", () => {
    const runs = sparkRuns([1, 1, NaN, 1, NaN], 10, 4, NaN, 0);
    expect(runs.map((r) => [r.x[0], r.x[r.x.length - 1]])).toEqual([
      [0, 4],
      [6, 8],
    ]);
  });
  it("keeps a spike in more values than pixels", () => {
    const v = new Array(1000).fill(0);
    v[501] = 9;
    expect(Math.min(...sparkRuns(v, 50, 20, NaN, 0)[0]!.y)).toBe(0);
  });
  it("has zero at the bottom, also when all is zero, and noise under the least top stays low", () => {
    expect(sparkRuns([0, 0], 10, 4, NaN, 0)[0]!.y).toEqual([4, 4, 4, 4]);
    expect(sparkRuns([0.01], 10, 100, NaN, 1)[0]!.y[0]).toBe(99);
    expect(sparkRuns([2, 0.5], 10, 100, 1, 0)[0]!.y).toEqual([0, 0, 50, 50]);
    expect(sparkRuns([], 10, 4, NaN, 0)).toEqual([]);
  });
});
