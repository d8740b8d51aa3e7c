import { describe, expect, it } from "vitest";
import { Coverage, rgb } from "./fine";

/** What is covered of each pixel, a line of text a row of pixels: . nothing, # all, else tenths. */
function picture(c: Coverage): string[] {
  const rows: string[] = [];
  for (let y = 0; y < c.height; y++) {
    let row = "";
    for (let x = 0; x < c.width; x++) {
      const tenths = Math.round((c.of[x * c.height + y]! / 255) * 10);
      row += tenths === 0 ? "." : tenths === 10 ? "#" : String(tenths);
    }
    rows.push(row);
  }
  return rows;
}

const traced = (
  values: number[],
  width: number,
  height: number,
  step: number,
  x0 = 0,
  opacity = 1,
): Coverage => {
  const c = new Coverage(width, height);
  c.trace(Float64Array.from(values), 0, values.length, x0, step, height, 0, 1, opacity);
  return c;
};

describe("hairlines as pixels", () => {
  it("are one pixel thick where they are level, wherever between two that is", () => {
    expect(picture(traced([1.5, 1.5, 1.5], 3, 4, 1))).toEqual(
      ["....", "...."].map(() => "...").concat(["###", "..."]),
    );
    expect(picture(traced([2, 2, 2], 3, 4, 1))).toEqual(["...", "555", "555", "..."]);
    expect(picture(traced([1.5, 1.5], 4, 3, 2))).toEqual(["....", "####", "...."]);
  });

  it("show a spike of one cell at its full height, also with many cells a pixel", () => {
    expect(picture(traced([0.5, 0.5, 4.5, 0.5, 0.5], 5, 5, 1)).map((r) => r[2])).toEqual([
      "#",
      "#",
      "#",
      ".",
      ".",
    ]);
    const many = traced(
      Array.from({ length: 40 }, (_, i) => (i === 21 ? 4.5 : 0.5)),
      4,
      5,
      0.1,
    );
    expect(picture(many)).toEqual(["..#.", "..#.", "..#.", "..#.", "####"]);
  });

  it("have gaps where nothing was measured", () => {
    expect(picture(traced([1.5, 1.5, NaN, NaN, 1.5, 1.5], 6, 3, 1))).toEqual([
      "......",
      "##..##",
      "......",
    ]);
    expect(picture(traced([NaN, 1.5, NaN], 3, 3, 1))).toEqual(["...", ".#.", "..."]);
  });

  it("stay within the picture", () => {
    for (const x0 of [-7.5, -0.4, 0.3, 3.7, 9])
      for (const v of [-100, -0.2, 0, 5, 5.4, 100]) traced([v, 2, v, NaN, v], 5, 5, 1, x0);
    expect(picture(traced([100, 100], 2, 3, 1))).toEqual(["..", "..", ".."]);
    // A line that comes from above the picture is seen in all of it.
    expect(picture(traced([100, 100, -100, -100], 4, 3, 1)).map((r) => r[1])).toEqual([
      "#",
      "#",
      "#",
    ]);
  });

  it("are darker where they lie upon one another, and never beyond all", () => {
    const c = traced([1.5, 1.5], 2, 3, 1, 0, 0.5);
    expect(picture(c)).toEqual(["..", "55", ".."]);
    const again = () => c.trace(Float64Array.from([1.5, 1.5]), 0, 2, 0, 1, 3, 0, 1, 0.5);
    again();
    expect(picture(c)[1]).toMatch(/^[78]{2}$/);
    for (let i = 0; i < 50; i++) again();
    expect(c.of[1]!).toBeGreaterThan(240);
  });

  it("become pixels of their colour", () => {
    const into = new Uint32Array(2 * 3);
    traced([1.5, 1.5], 2, 3, 1).pixels(into, [1, 2, 3]);
    expect([...into]).toEqual([0, 0, 0xff030201, 0xff030201, 0, 0]);
    expect(rgb("#0102ff")).toEqual([1, 2, 255]);
    expect(rgb("rgba(1, 2, 3, 0.5)")).toBeNull();
  });
});
