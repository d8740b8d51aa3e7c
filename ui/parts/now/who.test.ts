import { expect, it } from "vitest";
import { type Answer, idOf } from "../../data/columns";
import { users, whoTime } from "./who";

const answer = (rows: Record<string, number>): Answer =>
  ({
    series: Object.entries(rows).map(([k, v]) => ({ key: [k], id: idOf([k]), values: [v] })),
  }) as unknown as Answer;

it("lists the largest, and nobody who does nothing", () => {
  const list = users(answer({ a: 2, b: 8, c: 0, d: Number.NaN, e: 1, f: 3, g: 4, h: 0.5 }));
  expect(list.map((r) => r.labels[0])).toEqual(["b", "g", "f", "a", "e"]);
  expect(list.map((r) => r.share)).toEqual([1, 0.5, 0.375, 0.25, 0.125]);
});

it("is of the newest seconds, or of the time in the past that is shown", () => {
  expect(whoTime({ kind: "live", span: 600_000 }, 100_000)).toEqual({ from: 90_000, to: 100_000 });
  expect(whoTime({ kind: "live", span: 5000 }, 100_000)).toEqual({ from: 95_000, to: 100_000 });
  expect(whoTime({ kind: "past", from: 1000, to: 7000 }, 100_000)).toEqual({
    from: 1000,
    to: 7000,
  });
});
