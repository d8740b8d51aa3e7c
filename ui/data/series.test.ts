import { describe, expect, it } from "vitest";
import { fromJSON } from "./columns";
import {
  byValue,
  ceiling,
  csv,
  greatest,
  last,
  least,
  mean,
  nameOf,
  nextPeak,
  nextValley,
  peaks,
  residual,
  stack,
  sum,
  thin,
  tops,
} from "./series";

const f = (...v: number[]): Float64Array => Float64Array.from(v);

describe("rows", () => {
  it("are weighed by the measured time, and the unknown counts nowhere", () => {
    expect(mean(f(1, NaN, 4), [1000, 1000, 3000])).toBe(13 / 4);
    expect(mean(f(NaN, 5), [1000, 0])).toBeNaN();
    expect([greatest(f(NaN, -3, -1)), least(f(NaN, -3, -1)), last(f(1, 2, NaN))]).toEqual([-1, -3, 2]);
    expect(greatest(f(NaN))).toBeNaN();
  });

  it("are ordered by value, the unknown last, equal ones by name", () => {
    expect(byValue([1, NaN, 3, 3], ["a", "b", "d", "c"])).toEqual([3, 2, 0, 1]);
  });

  it("sum: nothing measured is unknown", () => {
    expect(Array.from(sum([f(1, NaN, NaN), f(2, 3, NaN)], 3))).toEqual([3, 3, NaN]);
  });

  it("leave a rest that is in none of them", () => {
    const base = { query: "", kind: "delta", unit: "ratio", start_ms: 2000, step_ms: 1000, elapsed_ms: [1, 1, 1, 1], by: ["p"] };
    const parts = fromJSON({
      ...base,
      series: [
        { key: ["a"], values: [1, 2, null, 0.1] },
        { key: ["b"], values: [1, null, null, 0.2] },
      ],
      rest: { rows: 3, values: [0.5, 0, null, 0] },
    });
    const total = fromJSON({ ...base, start_ms: 1000, elapsed_ms: [1, 1, 1, 1, 1], series: [{ key: [], values: [9, 4, null, 5, 0.3] }] });
    expect(Array.from(residual(total, total.series[0]!.values, parts))).toEqual([1.5, NaN, NaN, 0]);
  });

  it("stack on one another with gaps as gaps", () => {
    const [a, b] = stack([f(1, NaN, 3), f(2, 2, NaN)], 3);
    expect(Array.from(a!.upper)).toEqual([1, NaN, 3]);
    expect(Array.from(b!.lower)).toEqual([1, 0, NaN]);
    expect(Array.from(b!.upper)).toEqual([3, 2, NaN]);
  });

  it("are cropped where a share of the cells may stick out", () => {
    const t = tops([Float64Array.from({ length: 200 }, (_, i) => i)], 200);
    expect([0, 0.001, 0.01, 0.05].map((s) => ceiling(t, s))).toEqual([199, 199, 197, 189]);
    expect(ceiling(f(NaN), 0.01)).toBeNaN();
    expect(ceiling(f(5), 1)).toBe(5);
  });

  it("have peaks, the highest first; gaps and plateaus make none", () => {
    const v = f(0, 5, 0, NaN, 0, 9, 9, NaN, 9, 1, 3, 0);
    expect(peaks(v)).toEqual([5, 1, 10]);
    expect([nextPeak(v, -1), nextPeak(v, 5), nextPeak(v, 1), nextPeak(v, 10), nextPeak(v, 3)]).toEqual([5, 1, 10, 5, 5]);
    expect(nextValley(v, -1)).toBe(0);
    expect([nextPeak(f(2, 2), 0), nextPeak(f(NaN), 0)]).toEqual([0, -1]);
    expect(peaks(f(1, 2, 3))).toEqual([2]);
    expect(peaks(f(3, 2, 1))).toEqual([0]);
    expect(peaks(f(0, 100, 99, 100, 0))).toEqual([1]);
  });

  it("are CSV that a spreadsheet takes for numbers and never for a formula", () => {
    const a = fromJSON({
      query: "q",
      kind: "delta",
      unit: "B/s",
      start_ms: 0,
      step_ms: 1000,
      elapsed_ms: [1000, 0],
      by: ["p"],
      series: [
        { key: ['a,"b"'], values: [1.5, null] },
        { key: ["=x"], values: [0, -2] },
      ],
    });
    expect(csv(a).split("\r\n")).toEqual([
      "start,end,measured_s,p,value (B/s)",
      '1970-01-01T00:00:00.000Z,1970-01-01T00:00:01.000Z,1,"a,""b""",1.5',
      "1970-01-01T00:00:00.000Z,1970-01-01T00:00:01.000Z,1,'=x,0",
      '1970-01-01T00:00:01.000Z,1970-01-01T00:00:02.000Z,0,"a,""b""",',
      "1970-01-01T00:00:01.000Z,1970-01-01T00:00:02.000Z,0,'=x,-2",
      "",
    ]);
  });

  it("have names, also the whole and the empty word", () => {
    expect([nameOf({ key: [] }), nameOf({ key: ["eth0", ""] })]).toEqual(["all", 'eth0 ""']);
    const by = ["netns", "device"];
    expect([nameOf({ key: ["", "eth0"] }, by), nameOf({ key: ["box", ""] }, by), nameOf({ key: [""] }, by)]).toEqual([
      "eth0",
      'box ""',
      '""',
    ]);
  });

  it("keep their spikes when thinned", () => {
    const v = new Float64Array(1000);
    v[777] = 5;
    expect(greatest(thin(v, 60))).toBe(5);
    expect(thin(v, 60).length).toBe(60);
  });
});
