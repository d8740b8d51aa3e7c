import { describe, expect, it } from "vitest";
import { heatColour, heatPixels, isDark, rowAt, rowHeight } from "./heat";

describe("heat map", () => {
  it("has no colour for what was not measured, one for zero, and another for anything more", () => {
    const p = heatPixels([Float64Array.of(0, Number.NaN, 1e-9, 10, 99)], 0, 5, 10, true);
    expect(p[1]).toBe(0);
    expect(p[0]).toBe((0xff000000 | heatColour(0, true)) >>> 0);
    expect(p[2]).not.toBe(p[0]);
    expect(p[3]).toBe((0xff000000 | heatColour(1, true)) >>> 0);
    expect(p[4]).toBe(p[3]);
    expect(
      Array.from(heatPixels([Float64Array.of(1, 2), Float64Array.of(3, 4)], 1, 2, 4, true)).length,
    ).toBe(2);
    expect(heatPixels([Float64Array.of(0)], 0, 1, 0, true)[0]).not.toBe(0);
  });
  it("has colours by the logarithm of values, where a least one is given", () => {
    const of = (low: number) => heatPixels([Float64Array.of(0, 1, 100, 1e4)], 0, 4, 1e4, true, low);
    const mid = (0xff000000 | heatColour(0.5, true)) >>> 0;
    expect(of(1)[2]).toBe(mid);
    expect(of(0)[2]).not.toBe(mid);
    expect([of(1)[0], of(1)[3]]).toEqual([of(0)[0], of(0)[3]]);
  });
  it("goes from near the ground to far from it, in both themes", () => {
    const light = (c: number): number => (c & 255) + ((c >> 8) & 255) + ((c >> 16) & 255);
    for (let i = 1; i <= 10; i++) {
      expect(light(heatColour(i / 10, true))).toBeGreaterThan(
        light(heatColour((i - 1) / 10, true)),
      );
      expect(light(heatColour(i / 10, false))).toBeLessThan(light(heatColour((i - 1) / 10, false)));
    }
    expect([isDark("#0e1216"), isDark("#fcfcfa")]).toEqual([true, false]);
  });
  it("knows which row is where", () => {
    const box = { left: 0, top: 10, width: 100, height: 200 };
    expect(rowHeight(box, 100, 1)).toBe(2);
    expect(rowHeight(box, 3, 1)).toBe(24);
    expect([9, 10, 33, 34, 82].map((y) => rowAt(box, 3, 1, y))).toEqual([-1, 0, 0, 1, -1]);
  });
});
