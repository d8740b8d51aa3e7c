import { describe, expect, it } from "vitest";
import { grey } from "../../data/colour";
import { type Answer, fromJSON } from "../../data/columns";
import { plain } from "./graph";
import { compose, excessNote, onAxis, peaksOf, ranking, rateOver } from "./scene";

const answer = (rows: Record<string, (number | null)[]>, over: object = {}): Answer =>
  fromJSON({
    query: "q",
    kind: "delta",
    unit: "B/s",
    start_ms: 0,
    step_ms: 1000,
    elapsed_ms: [1000, 1000, 1000, 0],
    by: ["d"],
    series: Object.entries(rows).map(([k, values]) => ({ key: [k], values })),
    ...over,
  });
const all = { from: 0, to: 4, meanFrom: 0, meanTo: 4 };
const view = (a: Answer, o = plain, stack = false, residual: Float64Array | null = null) =>
  compose(a, ranking(a), o, true, stack, residual, all, 180);

describe("a view", () => {
  it("weighs what lived shortly by all the time, and a level by its own", () => {
    const a = answer({ short: [30, null, null, null], long: [20, 20, 20, null] });
    expect(rateOver(a, a.series[0]!.values)).toBe(10);
    expect(ranking(a)).toEqual(["long", "short"]);
    expect(rateOver({ ...a, kind: "level" }, a.series[0]!.values)).toBe(30);
    expect(rateOver(a, Float64Array.of(Number.NaN, Number.NaN, Number.NaN, Number.NaN))).toBeNaN();
  });

  it("has the rows that differ first, with a colour, however small they are", () => {
    const rows = Object.fromEntries(
      Array.from({ length: 12 }, (_, i) => [`r${i}`, [100 - i, 1, 1, null]]),
    );
    const a = answer({ ...rows, slow: [0, 0.1, 0, null], fast: [300, 300, 300, null] });
    const mark = (id: string, score: number) => {
      a.series.find((s) => s.id === id)!.unlike = { score, median: 90, others: 13 };
    };
    expect(view(a).drawn[0]!.id).toBe("fast");
    expect(view(a).rows.at(-1)!.id).toBe("slow");
    mark("slow", -9);
    mark("fast", 7);
    const v = view(a);
    expect(v.rows.slice(0, 3).map((r) => r.id)).toEqual(["slow", "fast", "r0"]);
    expect(v.rows[0]!.place).not.toBe(grey);
    expect(v.rows[0]!.unlike?.score).toBe(-9);
    expect(v.rows[2]!.unlike).toBeNull();
  });

  it("has a logarithmic axis from the least value above 0", () => {
    const a = answer({ big: [2e9, 2e9, 1e9, null], small: [0, 5e3, 2e4, null] });
    const v = view(a, { ...plain, log: true });
    expect([v.log, v.low]).toEqual([true, 1000]);
    expect(v.labels).toEqual(["1 k", "100 k", "10 M", "1 G"]);
    expect(view(a, { ...plain, log: true }, true).log).toBe(false);
  });

  it("draws values of a logarithmic axis at equal distances per decade, zero at its edge", () => {
    const v = { log: true, low: 100 };
    expect([1e2, 1e3, 1e5, 5, 0, -3].map((x) => onAxis(v, x))).toEqual([2, 3, 5, 2, 2, 2]);
    expect(onAxis(v, Number.NaN)).toBeNaN();
    expect(Array.from(onAxis(v, Float64Array.of(1e4, Number.NaN, 0)))).toEqual([4, Number.NaN, 2]);
    const linear = { log: false, low: 100 };
    expect([onAxis(linear, 1e3), onAxis(linear, -3)]).toEqual([1000, -3]);
  });

  it("has twelve decades of a logarithmic axis at most, and a linear one below zero", () => {
    const log = { ...plain, log: true };
    expect(view(answer({ a: [1e15, 1e-3, 1, null] }), log).low).toBe(1000);
    expect(view(answer({ a: [1e6, 1e-3, 1, null] }), log).low).toBe(1e-3);
    expect(view(answer({ a: [-1, 5, 1, null] }), log).log).toBe(false);
    expect(view(answer({ a: [0, 0, 0, null] }), log).log).toBe(false);
  });

  it("rescales to what is selected, with its unit", () => {
    const a = answer({ big: [5e8, 6e8, 5e8, null], small: [2e3, 1e3, 1e3, null] });
    expect(view(a).scale.unit).toBe("MB/s");
    const s = view(a, { ...plain, selected: [["small"]] });
    expect(s.scale.unit).toBe("kB/s");
    expect(s.drawn.map((r) => r.id)).toEqual(["small"]);
    expect(s.high).toBeCloseTo(2120);
    expect(view(a, { ...plain, wire: "bit" }).scale.unit).toBe("Gbit/s");
    expect(view(a, { ...plain, selected: [["gone"]] }).drawn.length).toBe(2);
    expect(view(a, { ...plain, hidden: [["big"]] }).drawn.map((r) => r.id)).toEqual(["small"]);
  });

  it("has eight colours, and the rest of a stack as one", () => {
    const rows = Object.fromEntries(
      Array.from({ length: 11 }, (_, i) => [`r${i}`, [100 - i, 1, 1, null]]),
    );
    const v = view(
      answer(rows, { rows: 15, rest: { rows: 4, values: [7, 7, 7, null] } }),
      plain,
      true,
    );
    expect(new Set(v.drawn.filter((r) => r.place !== grey).map((r) => r.place)).size).toBe(8);
    expect(v.other?.count).toBe(3 + 4);
    expect(Array.from(v.other!.values)).toEqual([92 + 91 + 90 + 7, 10, 10, Number.NaN]);
    expect(v.total![0]).toBe(
      Array.from({ length: 11 }, (_, i) => 100 - i).reduce((a, b) => a + b) + 7,
    );
    expect(v.tops[3]).toBeNaN();
  });

  it("keeps space for a spike within a cell, and cuts it where asked", () => {
    const a = answer({ a: [1, 1, 1, null] });
    a.series[0]!.max = Float64Array.of(1, 50, 1, Number.NaN);
    a.series[0]!.min = Float64Array.of(1, 0, 1, Number.NaN);
    expect(view(a).high).toBeCloseTo(53);
    const long = answer({ a: [...Array(99).fill(1), 90] }, { elapsed_ms: Array(100).fill(1000) });
    expect(
      compose(
        long,
        ranking(long),
        { ...plain, crop: 1 },
        true,
        false,
        null,
        { from: 0, to: 100, meanFrom: 0, meanTo: 100 },
        180,
      ).high,
    ).toBe(1);
  });

  it("keeps space for what a stack came to within a cell, where the whole is known", () => {
    const a = answer({ a: [1, 1, 1, null], b: [2, 2, 2, null] });
    const whole = answer(
      { "": [9, 3, 3, 3, null] },
      { start_ms: -1000, by: [], elapsed_ms: [1, 1, 1, 1, 1] },
    );
    whole.series[0]!.max = Float64Array.of(9, 3, 40, 3, Number.NaN);
    const peaks = peaksOf(whole, a)!;
    expect(Array.from(peaks)).toEqual([3, 40, 3, Number.NaN]);
    const of = (o = plain) => compose(a, ranking(a), o, true, true, null, all, 180, peaks);
    expect(of().high).toBeCloseTo(42.4);
    expect(of({ ...plain, selected: [["a"]] }).peaks).toBeNull();
    expect(peaksOf({ ...whole, step: 5000 }, a)).toBeNull();
  });

  it("has its maximum in the rows, never in what is in no row", () => {
    const a = answer({ a: [4, 1, 1, null], b: [1, 3, 1, null] });
    const left = Float64Array.of(0, 0, 50, Number.NaN);
    expect(Array.from(view(a, plain, false, left).rowTops)).toEqual([4, 3, 1, Number.NaN]);
    expect(Array.from(view(a, plain, false, left).tops)).toEqual([4, 3, 50, Number.NaN]);
    expect(Array.from(view(a, plain, true, left).rowTops)).toEqual([5, 4, 2, Number.NaN]);
    expect(Array.from(view(a, { ...plain, selected: [["b"]] }, false, left).rowTops)).toEqual([
      1,
      3,
      1,
      Number.NaN,
    ]);
  });

  it("says where the rows exceed their whole", () => {
    const a = answer({ a: [1, 1, 1, null] }, { unit: "ratio" });
    const values = Float64Array.of(0, 0, 0, 0);
    expect(excessNote({ values, clamped: 0, exceeded: 0, excess: 0 }, a, "cpu.time")).toBe("");
    expect(excessNote({ values, clamped: 0, exceeded: 3, excess: 0.25 }, a, "cpu.time")).toBe(
      "In 3 of 4 cells the rows exceed cpu.time by up to 25.0 %: the remainder is unknown there.",
    );
    expect(excessNote({ values, clamped: 2, exceeded: 0, excess: 0 }, a, "cpu.time")).toBe(
      "In 2 of 4 cells the rows exceed cpu.time by less than the error of the clock ticks: the remainder is 0 there.",
    );
  });

  it("shows zero as zero, the unknown as nothing, and goes below zero where values do", () => {
    const zero = view(answer({ a: [0, 0, 0, null] }));
    expect(zero.labels).toEqual(["0"]);
    expect(zero.high).toBeGreaterThan(0);
    expect(view(answer({ a: [null, null, null, null] })).rows[0]!.mean).toBeNaN();
    expect(view(answer({ a: [-4, 2, 0, null] })).low).toBeCloseTo(-4.24);
    expect(
      view(answer({ a: [4, 2, 0, null] }), plain, true, Float64Array.of(0, 3, 0, Number.NaN)).high,
    ).toBeCloseTo(5.3);
    expect(view(answer({})).drawn).toEqual([]);
  });
});
