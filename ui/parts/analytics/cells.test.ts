import { describe, expect, it } from "vitest";
import { fromJSON } from "../../data/columns";
import { cellsOf, newestOf } from "./cells";

const answer = fromJSON({
  query: "q",
  kind: "level",
  unit: "B",
  start_ms: 10_000,
  step_ms: 2000,
  elapsed_ms: [2000, 2000, 1000, 0, 0],
  by: [],
  series: [],
});
const none = Number.NaN;

describe("the cells in sight", () => {
  it("are those that the time touches, within the answer", () => {
    const sight = (from: number, to: number): number[] => {
      const c = cellsOf(answer, from, to, none, none);
      expect([c.meanFrom, c.meanTo]).toEqual([c.from, c.to]);
      return [c.from, c.to];
    };
    expect(sight(12_000, 16_000)).toEqual([1, 3]);
    expect(sight(11_999, 16_001)).toEqual([0, 4]);
    expect(sight(0, 99_000)).toEqual([0, 5]);
    expect(cellsOf(null, 0, 1, none, none)).toEqual({ from: 0, to: 0, meanFrom: 0, meanTo: 0 });
  });

  it("have their means between the marks, whichever is first", () => {
    const means = { from: 0, to: 5, meanFrom: 1, meanTo: 2 };
    expect(cellsOf(answer, 0, 99_000, 14_000, 12_000)).toEqual(means);
    expect(cellsOf(answer, 0, 99_000, 12_000, 14_000)).toEqual(means);
    expect(cellsOf(answer, 0, 99_000, 12_000, 12_000).meanTo).toBe(5);
    expect(cellsOf(answer, 0, 99_000, 12_000, none).meanTo).toBe(5);
  });

  it("have a newest one that was measured", () => {
    expect(newestOf(answer, cellsOf(answer, 0, 99_000, none, none))).toBe(2);
    expect(newestOf(answer, cellsOf(answer, 16_000, 99_000, none, none))).toBe(-1);
    expect(newestOf(null, cellsOf(null, 0, 1, none, none))).toBe(-1);
  });
});
