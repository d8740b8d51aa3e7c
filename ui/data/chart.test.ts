import { describe, expect, it } from "vitest";
import { busyOf, chartMarks, chartOf, during, lengthOf, momentsOf } from "./chart";
import { type Calls, callsOf, type Functions, type Times } from "./profile";

const names = ["all", "main", "leaf", "other"];
const functions: Functions = {
  names,
  module: new Uint32Array(4),
  modules: [""],
  file: new Uint32Array(4),
  files: [""],
  line: new Uint32Array(4),
  kind: new Uint8Array(4),
};

/** main 10 in itself, main;leaf 30, main;other 5. */
const calls: Calls = callsOf(
  functions,
  Uint32Array.of(0, 1, 2, 3),
  Int32Array.of(-1, 0, 1, 1),
  Float64Array.of(0, 10, 30, 5),
);

type Moment = [
  thread: number,
  node: number,
  at: number,
  span: number,
  amount: number,
  kept?: number,
];

function timesOf(list: Moment[]): Times {
  return {
    threads: ["one", "two"],
    thread: Uint32Array.from(list, (m) => m[0]),
    node: Uint32Array.from(list, (m) => m[1]),
    kept: Int32Array.from(list, (m) => m[5] ?? -1),
    at: Float64Array.from(list, (m) => m[2]),
    span: Float64Array.from(list, (m) => m[3]),
    amount: Float64Array.from(list, (m) => m[4]),
    usual: 0,
    within: 0,
    left: 0,
  };
}

/** leaf, main itself, then a gap, then other; of another thread leaf. */
const times = timesOf([
  [0, 2, 0, 10, 20],
  [0, 1, 10, 10, 10],
  [0, 3, 50, 10, 5],
  [1, 2, 5, 100, 10],
]);

function boxes(c: ReturnType<typeof chartOf>): string[] {
  return Array.from(c.fn, (f, i) => `${c.depth[i]} ${names[f]} ${c.left[i]}+${c.total[i]}`).slice(
    1,
  );
}

describe("a flame chart", () => {
  it("has the calls in the order of time, and gaps where nothing ran", () => {
    const c = chartOf(calls, times, 0);
    expect(boxes(c)).toEqual(["1 main 0+20", "2 leaf 0+10", "1 main 50+10", "2 other 50+10"]);
    expect(c.total[0]).toBe(105);
    expect([...c.end]).toEqual([5, 3, 3, 5, 5]);
    expect([...c.self]).toEqual([0, 10, 10, 0, 10]);
    expect(c.step).toBe(0);
  });

  it("has the same amounts as the flame graph", () => {
    const byName = new Map<string, number>();
    for (const thread of [0, 1]) {
      const c = chartOf(calls, times, thread);
      for (let i = 1; i < c.fn.length; i++) {
        let own = c.amount[i]!;
        for (let k = i + 1; k < c.end[i]!; k = c.end[k]!) own -= c.amount[k]!;
        byName.set(names[c.fn[i]!]!, (byName.get(names[c.fn[i]!]!) ?? 0) + own);
      }
    }
    expect(Object.fromEntries(byName)).toEqual({ main: 10, leaf: 30, other: 5 });
  });

  it("keeps two calls apart that follow one another", () => {
    const twice = timesOf([
      [0, 2, 0, 10, 10, 0],
      [0, 2, 10, 10, 10, 1],
    ]);
    expect(boxes(chartOf(calls, twice, 0))).toEqual(["1 main 0+20", "2 leaf 0+10", "2 leaf 10+10"]);
  });

  it("does not join a call with an older one of another caller", () => {
    const two = callsOf(
      functions,
      Uint32Array.of(0, 1, 2, 3),
      Int32Array.of(-1, 0, 1, 0),
      Float64Array.of(0, 0, 2, 1),
    );
    const back = timesOf([
      [0, 2, 0, 10, 1],
      [0, 3, 10, 10, 1],
      [0, 2, 20, 10, 1],
    ]);
    expect(boxes(chartOf(two, back, 0))).toEqual([
      "1 main 0+10",
      "2 leaf 0+10",
      "1 other 10+10",
      "1 main 20+10",
      "2 leaf 20+10",
    ]);
  });

  it("leaves a gap for what is left out", () => {
    const c = chartOf(calls, times, 0, Uint8Array.of(1, 1, 0, 1));
    expect(boxes(c)).toEqual(["1 main 10+10", "1 main 50+10", "2 other 50+10"]);
  });

  it("is a sketch of a bounded number of calls when it would have more", () => {
    const long = timesOf(
      Array.from({ length: 50_000 }, (_, i): Moment => [0, i % 2 ? 2 : 3, i * 10, 10, 1, 0]),
    );
    const whole = chartOf(calls, long, 0);
    expect(whole.fn.length).toBe(100_001);
    const sketch = chartOf(calls, long, 0, null, 1000);
    expect(sketch.fn.length).toBeLessThanOrEqual(1000);
    expect(sketch.fn.length).toBeGreaterThan(100);
    expect(sketch.step).toBeGreaterThan(0);
    expect(sketch.total[0]).toBe(500_000);
    expect(sketch.amount[1]).toBeNaN();
    for (let i = 1; i < sketch.left.length; i++)
      expect(sketch.left[i]!).toBeGreaterThanOrEqual(sketch.left[i - 1]!);
  });

  it("of a stretch of time has its calls alone, where they are in the whole", () => {
    const c = chartOf(calls, times, 0, null, 1000, { from: 12, to: 55 });
    expect(boxes(c)).toEqual(["1 main 10+10", "1 main 50+10", "2 other 50+10"]);
    expect(c.total[0]).toBe(105);
  });

  it("has no boxes of a thread without moments", () => {
    expect(chartOf(calls, times, 7).fn.length).toBe(1);
    expect(momentsOf(times, 1)).toEqual([3, 4]);
    expect([...busyOf(times)]).toEqual([30, 100]);
    expect(lengthOf(times)).toBe(105);
  });
});

describe("the calls of a stretch of time", () => {
  it("has the amounts of the moments in it, and parts of those that are cut", () => {
    expect([...during(calls, times, 0, 0, 105).self]).toEqual([0, 10, 20, 5]);
    expect([...during(calls, times, 0, 5, 12).self]).toEqual([0, 2, 10, 0]);
    expect(during(calls, times, 0, 25, 45).total[0]).toBe(0);
  });
});

describe("the marks of the axis", () => {
  it("are round and in one unit", () => {
    expect(chartMarks(0, 3e9, 400).map((m) => m.label)).toEqual(["0 s", "1 s", "2 s", "3 s"]);
    expect(chartMarks(1.2e6, 1.6e6, 400).map((m) => m.label)).toEqual([
      "1.2 ms",
      "1.3 ms",
      "1.4 ms",
      "1.5 ms",
      "1.6 ms",
    ]);
    expect(chartMarks(5, 5, 400)).toEqual([]);
  });
});
