import { describe, expect, it } from "vitest";
import type { Answer } from "../../data/columns";
import {
  busiest,
  nameOf,
  newestOf,
  pointAt,
  recordedOf,
  type Seconds,
  secondsOf,
  snapped,
  stretchOf,
} from "./seconds";

const nan = Number.NaN;
const answer: Answer = {
  query: "cpu.stack.busy by slot",
  kind: "delta",
  unit: "samples/s",
  sparse: true,
  start: 10_000,
  step: 1000,
  elapsed: Float64Array.from([1000, 0, 1000, 1000]),
  by: ["slot"],
  series: [
    { key: ["0"], id: "0", values: Float32Array.from([1, nan, nan, 4]), min: null, max: null },
    { key: ["2"], id: "2", values: Float32Array.from([2, nan, 3, 5]), min: null, max: null },
    { key: ["77"], id: "77", values: Float32Array.from([9, 9, 9, 9]), min: null, max: null },
  ],
  rows: 3,
  rest: null,
  loss: [],
  notes: [],
};

describe("the seconds", () => {
  const s = secondsOf(answer, 3);
  it("tell what was not measured from what was not busy", () => {
    expect([...s.rate]).toEqual([1, nan, 0, 4, 0, nan, 0, 0, 2, nan, 3, 5]);
    expect([...s.whole]).toEqual([3, nan, 3, 9]);
    expect(s.most).toBe(5);
  });
  it("know what a place of the map is", () => {
    expect(pointAt(s, 12_500, 0.7)).toEqual({ from: 12_000, offset: [2000 / 3, 1000], rate: 3 });
    expect(pointAt(s, 11_000, 0)?.rate).toBeNaN();
    expect(pointAt(s, 9_999, 0)).toBeNull();
    expect(pointAt(s, 14_000, 0)).toBeNull();
    expect(pointAt(s, 10_000, 1)).toBeNull();
  });
  it("take the lines of a part of a second for what was seen of them", () => {
    // A server that began 0.2 s before the end of a second: the last line has seen both CPUs busy
    // once, at a rate of 10 a second.
    const begun = secondsOf(
      {
        ...answer,
        elapsed: Float64Array.from([200, 0, 1000, 1040]),
        series: [{ ...answer.series[0]!, values: Float32Array.from([10, nan, 2, 2]) }],
      },
      1,
    );
    expect([...begun.rate]).toEqual([2, nan, 2, 2]);
    expect(begun.most).toBe(2);
    expect([...begun.whole]).toEqual([10, nan, 2, 2]);
    const columns = secondsOf(
      {
        ...answer,
        step: 2000,
        elapsed: Float64Array.from([1200, 0, 2000, 2010]),
        series: [{ ...answer.series[0]!, values: Float32Array.from([10 / 3, nan, 2, 2]) }],
      },
      1,
    );
    expect([...columns.rate].map((v) => Math.round(v))).toEqual([2, nan, 2, 2]);
  });
  it("find where it was busiest", () => {
    expect(busiest(s, 1000)).toEqual({ from: 13_000, to: 14_000 });
    expect(busiest(s, 2000)).toEqual({ from: 12_000, to: 14_000 });
    expect(busiest({ ...s, cells: 0 }, 1000)).toBeNull();
    expect(busiest({ ...s, whole: s.whole.map(() => nan) }, 1000)).toBeNull();
  });
  it("are chosen by whole columns, whichever way one drags", () => {
    expect(snapped(s, 12_900, 11_100)).toEqual({ from: 11_000, to: 13_000 });
    expect(snapped(s, 12_500, 12_500)).toEqual({ from: 12_000, to: 13_000 });
    expect(snapped(s, 0, 99_000)).toEqual({ from: 10_000, to: 14_000 });
    expect(snapped(s, 99_000, 99_500)).toEqual({ from: 13_000, to: 14_000 });
  });
  it("have a name", () => {
    expect(stretchOf(nameOf({ from: 1000, to: 2000 }))).toEqual({ from: 1000, to: 2000 });
    for (const name of ["", "1000..1000", "2..1", "a..b", "1..2..3", "364c47b6df8e7ab7"])
      expect(stretchOf(name)).toBeNull();
  });
});

describe("what was recorded while a profile was taken", () => {
  it("has the seconds of it, two minutes at most; a file and waits have nothing", () => {
    const k = { unit: "samples", from_ms: 10_400, to_ms: 13_100 };
    expect(recordedOf(k, "")).toBe("10000..14000");
    expect(recordedOf(k, "pid:7")).toBe("10000..14000,pid:7");
    expect(recordedOf({ ...k, to_ms: 900_000 }, "")).toBe("10000..130000");
    expect(recordedOf({ unit: "samples" }, "")).toBe("");
    expect(recordedOf({ ...k, unit: "ns" }, "")).toBe("");
  });
});

describe("what is shown before somebody chooses", () => {
  /** Columns of `step` ms each; `whole` has the number of samples of each column. */
  const map = (step: number, whole: number[]): Seconds => ({
    start: 60_000,
    step,
    cells: whole.length,
    slots: 1,
    rate: Float32Array.from(whole),
    whole: Float32Array.from(whole),
    most: 1,
  });
  it("is from the first to the last column with samples", () => {
    expect(newestOf(map(1000, [nan, 0, 3, nan, 2, 0, nan]))).toEqual({ from: 62_000, to: 65_000 });
  });
  it("is ten minutes at most, the newest", () => {
    expect(newestOf(map(60_000, new Array(60).fill(1)))).toEqual({
      from: 3_060_000,
      to: 3_660_000,
    });
    expect(newestOf(map(3_600_000, [1, 1]))).toEqual({ from: 3_660_000, to: 7_260_000 });
  });
  it("is nothing where there are no samples", () => {
    expect(newestOf(map(1000, [0, nan]))).toBeNull();
    expect(newestOf(map(1000, []))).toBeNull();
  });
});
