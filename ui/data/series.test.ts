import { describe, expect, it } from "vitest";
import { fromJSON } from "./columns";
import {
  byValue,
  ceiling,
  greatest,
  labelsOf,
  last,
  least,
  mean,
  nameOf,
  nextPeak,
  nextValley,
  peaks,
  readable,
  residual,
  stack,
  sum,
  thin,
  tops,
  unlikeFirst,
  unlikeText,
} from "./series";

const f = (...v: number[]): Float64Array => Float64Array.from(v);

describe("rows", () => {
  it("are weighed by the measured time, and the unknown counts nowhere", () => {
    expect(mean(f(1, NaN, 4), [1000, 1000, 3000])).toBe(13 / 4);
    expect(mean(f(NaN, 5), [1000, 0])).toBeNaN();
    expect([greatest(f(NaN, -3, -1)), least(f(NaN, -3, -1)), last(f(1, 2, NaN))]).toEqual([
      -1, -3, 2,
    ]);
    expect(greatest(f(NaN))).toBeNaN();
  });

  it("are ordered by value, the unknown last, equal ones by name", () => {
    expect(byValue([1, NaN, 3, 3], ["a", "b", "d", "c"])).toEqual([3, 2, 0, 1]);
  });

  it("sum: nothing measured is unknown", () => {
    expect(Array.from(sum([f(1, NaN, NaN), f(2, 3, NaN)], 3))).toEqual([3, 3, NaN]);
  });

  it("leave a rest that is in none of them", () => {
    const base = {
      query: "",
      kind: "delta",
      unit: "ratio",
      start_ms: 2000,
      step_ms: 1000,
      elapsed_ms: [1, 1, 1, 1],
      by: ["p"],
    };
    const parts = fromJSON({
      ...base,
      series: [
        { key: ["a"], values: [1, 2, null, 0.1] },
        { key: ["b"], values: [1, null, null, 0.2] },
      ],
      rest: { rows: 3, values: [0.5, 0, null, 0] },
    });
    const total = fromJSON({
      ...base,
      start_ms: 1000,
      elapsed_ms: [1, 1, 1, 1, 1],
      series: [{ key: [], values: [9, 4, null, 5, 0.3] }],
    });
    expect(Array.from(residual(total, total.series[0]!.values, parts).values)).toEqual([
      1.5,
      NaN,
      NaN,
      0,
    ]);
    const cut = { ...parts, rest: null, rows: 5 };
    expect(
      Array.from(residual(total, total.series[0]!.values, cut).values),
      "rows that were not sent",
    ).toEqual([NaN, NaN, NaN, NaN]);
  });

  it("leave no rest below zero: 0 within the error of the ticks, unknown beyond it", () => {
    const of = (whole: number, part: number, parts: number, elapsed = 1000, unit = "ratio") => {
      const base = {
        query: "",
        kind: "delta",
        unit,
        start_ms: 0,
        step_ms: elapsed,
        elapsed_ms: [elapsed],
      };
      const rows = Array.from({ length: parts }, (_, i) => ({
        key: [`p${i}`],
        values: [part / parts],
      }));
      const total = fromJSON({ ...base, by: [], series: [{ key: [], values: [whole] }] });
      return residual(
        total,
        total.series[0]!.values,
        fromJSON({ ...base, by: ["p"], series: rows }),
      );
    };
    const known = (left: number, clamped = 0) => ({
      values: Float64Array.of(left),
      clamped,
      exceeded: 0,
      excess: 0,
    });
    const unknown = (excess: number) => ({
      values: Float64Array.of(NaN),
      clamped: 0,
      exceeded: 1,
      excess: expect.closeTo(excess, 9),
    });
    // Nine parts and a whole: 40 ms, of a second 4 %, of ten seconds 0.4 %.
    expect(of(1, 1.039, 9)).toEqual(known(0, 1));
    expect(of(1, 1.041, 9)).toEqual(unknown(0.041));
    expect(of(1, 1.0039, 9, 10_000)).toEqual(known(0, 1));
    expect(of(1, 1.0041, 9, 10_000)).toEqual(unknown(0.0041));
    expect(of(1, 1.0041, 9, 1000, "B/s"), "bytes have no ticks").toEqual(unknown(0.0041));
    expect(of(1, 0.75, 3)).toEqual(known(0.25));
    for (let n = 1; n < 400; n += 13) {
      for (let part = 0; part < 3; part += 0.07) {
        const { values, clamped, exceeded } = of(1, part, n);
        expect(values[0]! >= 0 || exceeded === 1, `${n} parts of ${part}`).toBe(true);
        // Every value that is not the plain difference has its note.
        expect(clamped + exceeded, `${n} parts of ${part}`).toBe(part > 1 + 1e-6 ? 1 : 0);
      }
    }
  });

  it("stack on one another with gaps as gaps", () => {
    const [a, b] = stack([f(1, NaN, 3), f(2, 2, NaN)], 3);
    expect(Array.from(a!.upper)).toEqual([1, NaN, 3]);
    expect(Array.from(b!.lower)).toEqual([1, 0, NaN]);
    expect(Array.from(b!.upper)).toEqual([3, 2, NaN]);
  });

  it("are clipped at the top by a share of the cells", () => {
    const t = tops([Float64Array.from({ length: 200 }, (_, i) => i)], 200);
    expect([0, 0.001, 0.01, 0.05].map((s) => ceiling(t, s))).toEqual([199, 199, 197, 189]);
    expect(ceiling(f(NaN), 0.01)).toBeNaN();
    expect(ceiling(f(5), 1)).toBe(5);
  });

  it("have peaks, the highest first; gaps and plateaus make none", () => {
    const v = f(0, 5, 0, NaN, 0, 9, 9, NaN, 9, 1, 3, 0);
    expect(peaks(v)).toEqual([5, 1, 10]);
    expect([
      nextPeak(v, -1),
      nextPeak(v, 5),
      nextPeak(v, 1),
      nextPeak(v, 10),
      nextPeak(v, 3),
    ]).toEqual([5, 1, 10, 5, 5]);
    expect(nextValley(v, -1)).toBe(0);
    expect([nextPeak(f(2, 2), 0), nextPeak(f(NaN), 0)]).toEqual([0, -1]);
    expect(peaks(f(1, 2, 3))).toEqual([2]);
    expect(peaks(f(3, 2, 1))).toEqual([0]);
    expect(peaks(f(0, 100, 99, 100, 0))).toEqual([1]);
  });

  it("have names, also the whole and the empty word", () => {
    expect([nameOf({ key: [] }), nameOf({ key: ["eth0", ""] })]).toEqual(["all", 'eth0 ""']);
    const by = ["netns", "device"];
    expect([
      nameOf({ key: ["", "eth0"] }, by),
      nameOf({ key: ["box", ""] }, by),
      nameOf({ key: [""] }, by),
    ]).toEqual(["eth0", 'box ""', '""']);
  });

  it("keep their spikes when thinned", () => {
    const v = new Float64Array(1000);
    v[777] = 5;
    expect(greatest(thin(v, 60))).toBe(5);
    expect(thin(v, 60).length).toBe(60);
  });
});

describe("rows unlike the others", () => {
  const u = (score: number) => ({ score, median: 5e6, others: 9 });

  it("come first, the furthest first whichever way, and the rest stays in its order", () => {
    const rows = [
      { n: 1 },
      { n: 2, unlike: u(7) },
      { n: 3, unlike: null },
      { n: 4, unlike: u(-8) },
    ];
    expect(unlikeFirst(rows).map((r) => r.n)).toEqual([4, 2, 1, 3]);
  });

  it("say by how much", () => {
    expect(unlikeText(u(-8.4), "B/s", "byte", "bytes rx", 1e6)).toBe(
      "unlike the others: bytes rx 1.00 MB/s, less than the median of the 9 others, 5.00 MB/s (8 robust standard deviations)",
    );
    expect(unlikeText(u(8.6), "B/s", "bit")).toBe(
      "unlike the others: more than the median of the 9 others, 40.0 Mbit/s (9 robust standard deviations)",
    );
  });
});

it("writes out what would turn or break a name, and leaves every script as it is", () => {
  expect(readable("\u202egpj.exe\u202c")).toBe("\\u202egpj.exe\\u202c");
  expect(readable("a\tb\nc\u0007\u2066")).toBe("a\\tb\\nc\\u0007\\u2066");
  for (const name of ["שלום", "漢字", "e\u0301", "👩‍👩‍👧", "ไทย", "a b"])
    expect(readable(name)).toBe(name);
  expect(labelsOf({ key: ["\u202ex", ""] }, ["process", "netns"])).toEqual(["\\u202ex", ""]);
  expect(nameOf({ key: ["a\nb"] })).toBe("a\\nb");
});
