import { describe, expect, it } from "vitest";
import { nextSort, sorted } from "./order";
import type { Row } from "./scene";

const nan = Number.NaN;

/** A row with a name, its values in two cells, its mean, and its score; 0: like the others. */
function row(name: string, values: number[], mean: number, score = 0): Row {
  const unlike = score === 0 ? null : { score, median: 50, others: 4 };
  return { name, values: Float64Array.from(values), mean, unlike } as Row;
}

const rows = [
  row("b", [1, 70], 30),
  row("gone", [nan, nan], nan),
  row("slow", [2, 3], 5, -9),
  row("a", [9, 60], 40),
  row("fast", [4, 90], 95, 20),
];
const names = (list: Row[]): string => list.map((r) => r.name).join(" ");

describe("the order of rows", () => {
  it.each([
    ["", false, "fast slow a b gone"],
    ["", true, "fast slow b a gone"],
    ["name", false, "a b fast gone slow"],
    ["-name", false, "slow gone fast b a"],
    ["value", false, "fast b a slow gone"],
    ["-value", false, "slow a b fast gone"],
    ["mean", false, "fast a b slow gone"],
    ["-mean", false, "slow b a fast gone"],
  ] as const)("sorts by %j, by the cell in the usual order: %s", (sort, byCell, want) => {
    expect(names(sorted(rows, sort, 1, byCell))).toBe(want);
  });

  it("has the values of its cell", () => {
    expect(names(sorted(rows, "value", 0, false))).toBe("a fast slow b gone");
    expect(names(sorted(rows, "-value", 7, false))).toBe("a b fast gone slow");
  });

  it("leaves the rows that it was given as they are", () => {
    sorted(rows, "mean", 1, false);
    expect(names(rows)).toBe("b gone slow a fast");
  });

  it("turns with each click on a column, and begins with another column anew", () => {
    expect(nextSort("", "value")).toBe("value");
    expect(nextSort("value", "value")).toBe("-value");
    expect(nextSort("-value", "value")).toBe("");
    expect(nextSort("-value", "mean")).toBe("mean");
    expect(nextSort("mean", "name")).toBe("name");
  });
});
