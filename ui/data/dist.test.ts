import { expect, it } from "vitest";
import { bars, bucketStart, count, lines, merge, quantile } from "./dist";

it("knows where buckets begin", () => {
  expect([0, 1, 2, 3, 4, 11].map((b) => bucketStart(0, b))).toEqual([0, 1, 2, 4, 8, 1024]);
  expect([0, 3, 4, 7, 8, 9, 12].map((b) => bucketStart(2, b))).toEqual([0, 3, 4, 7, 8, 10, 16]);
});

it("puts distributions together", () => {
  const d = merge([
    { base: 0, first: 3, counts: [2], sum: 10 },
    null,
    { base: 0, first: 1, counts: [1, 0, 1], sum: 6 },
  ])!;
  expect(d).toEqual({ base: 0, first: 1, counts: [1, 0, 3], sum: 16 });
  expect(count(d)).toBe(4);
  expect(quantile(d, 1)).toBe(8);
  expect(quantile(d, 0.25)).toBe(2);
  expect(merge([null])).toBeNull();
});

it("shows a mean between the least and the greatest, and a gap where nothing was", () => {
  const l = lines([{ base: 0, first: 3, counts: [0, 2, 0], sum: 20 }, null], 2);
  expect([...l.values]).toEqual([10, Number.NaN]);
  expect([...l.min]).toEqual([8, Number.NaN]);
  expect([...l.max]).toEqual([16, Number.NaN]);
});

it("makes a bar of each power of two", () => {
  expect(bars({ base: 0, first: 0, counts: [1, 2, 0, 3], sum: 0 })).toEqual([
    { from: 0, to: 1, count: 1 },
    { from: 1, to: 2, count: 2 },
    { from: 2, to: 4, count: 0 },
    { from: 4, to: 8, count: 3 },
  ]);
  // Base 2: 4 5 6 7, then 8-9.
  expect(bars({ base: 2, first: 4, counts: [1, 1, 0, 1, 5], sum: 0 })).toEqual([
    { from: 4, to: 8, count: 3 },
    { from: 8, to: 16, count: 5 },
  ]);
});
