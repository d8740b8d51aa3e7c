import { describe, expect, it } from "vitest";
import { type Answer, fromJSON } from "./columns";
import { Live } from "./live";

const grid = (over: object): Answer =>
  fromJSON({
    query: "q",
    kind: "delta",
    unit: "B/s",
    start_ms: 0,
    step_ms: 1000,
    elapsed_ms: [1000, 1000, 1000],
    by: ["d"],
    series: [{ key: ["a"], values: [1, 2, 3] }],
    ...over,
  });

const tick = (values: Record<string, number | null>, over: object = {}): Answer =>
  fromJSON({
    query: "q",
    kind: "delta",
    unit: "B/s",
    start_ms: 0,
    step_ms: 1000,
    elapsed_ms: [1000],
    by: ["d"],
    series: Object.entries(values).map(([k, v]) => ({ key: [k], values: [v] })),
    ...over,
  });

const values = (l: Live, id: string): number[] =>
  Array.from(l.answer().series.find((s) => s.id === id)?.values ?? []);

const slow = { key: ["a"], score: -9, median: 50, others: 4 };

describe("live rows that are unlike the others", () => {
  const marks = (l: Live): unknown[] => l.answer().series.map((s) => [s.id, s.unlike?.score]);

  it("have the scores of the past until new ones come, and none when they are like the others", () => {
    const l = new Live(
      grid({
        series: [{ key: ["a"], values: [1, 2, 3], unlike: { score: 7, median: 1, others: 3 } }],
      }),
    );
    l.append(4000, tick({ a: 1, b: 5 }));
    expect(marks(l)).toEqual([
      ["a", 7],
      ["b", undefined],
    ]);
    l.append(5000, tick({ a: 1, b: 5 }, { unlike: [{ ...slow, key: ["b"] }] }));
    expect(marks(l)).toEqual([
      ["a", undefined],
      ["b", -9],
    ]);
    l.append(6000, tick({ a: 1, b: 5 }));
    expect(marks(l)).toEqual([
      ["a", undefined],
      ["b", -9],
    ]);
    l.append(7000, tick({ a: 1, b: 5 }, { unlike: [] }));
    expect(marks(l)).toEqual([
      ["a", undefined],
      ["b", undefined],
    ]);
  });

  const some = { rows: 40, rest: { rows: 39, values: [2] }, compared_ms: 5000 };

  it("read as 0 where they are absent, also when other rows were held back", () => {
    const l = new Live(grid({ sparse: true }));
    l.append(4000, tick({ b: 5 }, { ...some, compared_ms: undefined }));
    expect(values(l, "a")).toEqual([2, 3, NaN]);
    l.append(5000, tick({ b: 5 }, { ...some, unlike: [slow] }));
    expect(values(l, "a")).toEqual([3, NaN, 0]);
    l.append(6000, tick({ b: 5 }, some));
    expect(values(l, "a")).toEqual([NaN, 0, 0]);
  });

  it("are unknown where some of those that differ were held back", () => {
    const l = new Live(grid({ sparse: true }));
    l.append(4000, tick({ b: 5 }, { ...some, unlike: [slow, { ...slow, key: ["b"] }] }));
    expect(values(l, "a")).toEqual([2, 3, NaN]);
  });

  it("are unknown where the server has newer scores than those that came, or none came yet", () => {
    const l = new Live(
      grid({
        sparse: true,
        series: [{ key: ["a"], values: [1, 2, 3], unlike: { score: 7, median: 1, others: 3 } }],
      }),
    );
    l.append(4000, tick({ b: 5 }, some));
    expect(values(l, "a")).toEqual([2, 3, NaN]);
    l.append(5000, tick({ b: 5 }, { ...some, unlike: [slow] }));
    l.append(6000, tick({ b: 5 }, { ...some, compared_ms: 9000 }));
    expect(values(l, "a")).toEqual([NaN, 0, NaN]);
  });
});

describe("live rows", () => {
  it("follows the time in a window of fixed length", () => {
    const l = new Live(grid({}));
    for (let t = 4; t <= 20; t++) l.append(t * 1000, tick({ a: t }));
    expect(values(l, "a")).toEqual([18, 19, 20]);
    expect(l.answer().start).toBe(17000);
    expect(l.end).toBe(20000);
  });

  it("has gaps for rows that come and go, and forgets those that are gone for a window", () => {
    const l = new Live(grid({}));
    l.append(4000, tick({ b: 5 }));
    expect(values(l, "a")).toEqual([2, 3, NaN]);
    expect(values(l, "b")).toEqual([NaN, NaN, 5]);
    for (let t = 5; t <= 12; t++) l.append(t * 1000, tick({ b: t }));
    expect(l.answer().series.map((s) => s.id)).toEqual(["b"]);
  });

  it("reads an absent row as 0 only where the statistic leaves zeros out, the tick was measured and no row was held back", () => {
    const l = new Live(grid({ sparse: true }));
    l.append(4000, tick({ b: 5 }));
    expect(values(l, "a")).toEqual([2, 3, 0]);
    l.append(5000, tick({}, { elapsed_ms: [0] }));
    expect(values(l, "a")).toEqual([3, 0, NaN]);
    l.append(6000, tick({ b: 6 }, { rows: 40, rest: { rows: 39, values: [2] } }));
    expect(values(l, "a")).toEqual([0, NaN, NaN]);
  });

  it("merges distributions within a cell: its mean is that of all values, not of the ticks", () => {
    const d = (n: number, at: number, sum: number) => ({ base: 0, first: at, counts: [n], sum });
    const past = { kind: "dist", unit: "ns", by: [], step_ms: 2000, elapsed_ms: [2000, 2000] };
    const l = new Live(grid({ ...past, series: [{ key: [], dists: [d(3, 2, 9), d(1, 2, 3)] }] }));
    const one = { kind: "dist", unit: "ns", by: [] };
    l.append(5000, tick({}, { ...one, series: [{ key: [], dists: [d(9, 3, 54)] }] }));
    l.append(6000, tick({}, { ...one, series: [{ key: [], dists: [d(1, 6, 46)] }] }));
    const [row] = l.answer().series;
    expect(row!.dists).toEqual([d(1, 2, 3), { base: 0, first: 3, counts: [9, 0, 0, 1], sum: 100 }]);
    expect([...row!.values]).toEqual([3, 10]);
    expect([row!.min![1], row!.max![1]]).toEqual([4, 64]);
    // What moves out of the window takes its distributions along.
    for (let t = 7; t <= 12; t++) l.append(t * 1000, tick({}, { ...one, series: [] }));
    l.append(13_000, tick({}, { ...one, series: [{ key: [], dists: [d(2, 2, 6)] }] }));
    expect(l.answer().series[0]!.dists).toEqual([null, d(2, 2, 6)]);
  });

  it("has no mean where there were no values", () => {
    const two = [{ key: ["a"], dists: [{ base: 0, first: 2, counts: [1], sum: 2 }, null, null] }];
    const l = new Live(grid({ kind: "dist", unit: "ns", sparse: true, series: two }));
    l.append(4000, tick({}, { kind: "dist", unit: "ns", sparse: true }));
    expect(values(l, "a")).toEqual([NaN, NaN, NaN]);
  });

  it("knows how many rows were not sent, also when there are fewer of them", () => {
    const l = new Live(grid({ rows: 9 }));
    expect(l.answer().rows).toBe(9);
    l.append(4000, tick({ a: 1, b: 5 }, { rows: 4 }));
    expect(l.answer().rows).toBe(4);
  });

  it("leaves cells empty where ticks are missing", () => {
    const l = new Live(grid({}), 6);
    l.append(6000, tick({ a: 6 }));
    expect(values(l, "a")).toEqual([1, 2, 3, NaN, NaN, 6]);
    expect(Array.from(l.answer().elapsed)).toEqual([1000, 1000, 1000, 0, 0, 1000]);
    l.gap(6000, 8000, "stopped");
    expect(values(l, "a")).toEqual([3, NaN, NaN, 6, NaN, NaN]);
    expect(l.missing).toEqual([{ from: 6000, to: 8000, reason: "stopped" }]);
  });

  it("drops a tick that is there already, and old ones", () => {
    const l = new Live(grid({}));
    expect(l.append(3000, tick({ a: 9 }))).toBe(false);
    expect(l.append(1000, tick({ a: 9 }))).toBe(false);
    expect(values(l, "a")).toEqual([1, 2, 3]);
  });

  it("makes a long cell of ticks: an amount by all the time of the cell, a level over the ticks where it was there", () => {
    const wide = { step_ms: 5000, elapsed_ms: [5000], series: [{ key: ["a"], values: [10] }] };
    const amount = new Live(grid(wide), 2);
    amount.append(6000, tick({ a: 10 }));
    amount.append(7000, tick({ a: 20 }));
    amount.append(8000, tick({ b: 3 }));
    expect(values(amount, "a")[1]).toBeCloseTo(10);
    expect(values(amount, "b")[1]).toBeCloseTo(1);
    const a = amount.answer().series[0]!;
    expect([a.min![1], a.max![1]]).toEqual([10, 20]);
    const level = new Live(grid({ ...wide, kind: "level" }), 2);
    const at = { kind: "level" };
    level.append(6000, tick({ a: 10 }, at));
    level.append(7000, tick({ a: 20 }, at));
    level.append(8000, tick({ b: 3 }, at));
    expect(values(level, "a")[1]).toBeCloseTo(15);
    expect(values(level, "b")[1]).toBeCloseTo(3);
  });

  it("takes the ticks of a dataset of longer steps, with nothing of it in the seconds between", () => {
    const l = new Live(
      grid({
        step_ms: 10_000,
        elapsed_ms: [10_000, 0],
        series: [{ key: ["a"], values: [1, null] }],
      }),
      3,
    );
    const nothing = tick({}, { step_ms: 10_000, elapsed_ms: [0] });
    for (let t = 11; t < 20; t++) expect(l.append(t * 1000, nothing)).toBe(false);
    expect(l.append(20_000, tick({ a: 2 }, { step_ms: 10_000, elapsed_ms: [9965] }))).toBe(true);
    for (let t = 21; t < 30; t++) l.append(t * 1000, nothing);
    expect(values(l, "a")).toEqual([1, 2]);
    expect(l.newestTick).toBe(20_000);
    // One that does not come is missing in the end.
    for (let t = 30; t <= 36; t++) l.append(t * 1000, nothing);
    expect(values(l, "a")).toEqual([2, NaN, NaN]);
    l.append(40_000, tick({ a: 4 }, { step_ms: 10_000, elapsed_ms: [10_000] }));
    expect(values(l, "a")).toEqual([2, NaN, 4]);
  });

  it("weighs uneven ticks by their measured time", () => {
    const l = new Live(
      grid({ step_ms: 5000, elapsed_ms: [5000], series: [{ key: ["a"], values: [0] }] }),
      2,
    );
    l.append(6000, tick({ a: 9 }, { elapsed_ms: [1000] }));
    l.append(9000, tick({ a: 1 }, { elapsed_ms: [3000] }));
    expect(values(l, "a")[1]).toBeCloseTo(3);
  });

  it("never grows, whatever the number of ticks", () => {
    const l = new Live(grid({}));
    for (let t = 4; t < 5000; t++) l.append(t * 1000, tick({ [`r${t % 7}`]: t, [`once${t}`]: 1 }));
    expect(l.answer().series.length).toBeLessThanOrEqual(13);
    expect(l.answer().series[0]!.values.length).toBe(3);
  });
});
