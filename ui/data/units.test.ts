import { describe, expect, it } from "vitest";
import { digits, howLong, humane, logMarks, marks, raw, roundStep, scaleFor, show } from "./units";

describe("units", () => {
  it("are humane", () => {
    const cases: [number, string, string][] = [
      [736e6, "B/s", "736 MB/s"],
      [90.4e6, "bit/s", "90.4 Mbit/s"],
      [2.9e6, "ns", "2.90 ms"],
      [24431489024, "B", "22.8 GiB"],
      [512, "B", "512 B"],
      [0.3816, "ratio", "38.2 %"],
      [0.0001, "ratio", "0.0100 %"],
      [12345, "event/s", "12.3 k event/s"],
      [12, "packet/s", "12.0 packet/s"],
      [3.4e9, "Hz", "3.40 GHz"],
      [1234, "1", "1.23 k"],
      [1234, "1/s", "1.23 k/s"],
      [0, "B/s", "0 B/s"],
      [NaN, "B/s", "–"],
      [-2048, "B", "−2.00 KiB"],
      [7.2e12, "ns", "2.00 h"],
    ];
    for (const [v, unit, want] of cases) expect(humane(v, unit), `${v} ${unit}`).toBe(want);
  });

  const edges: [number, string, string][] = [
    [999.4e6, "bit/s", "999 Mbit/s"],
    [999.5e6, "bit/s", "1.00 Gbit/s"],
    [999.9999e6, "bit/s", "1.00 Gbit/s"],
    [1000e6, "bit/s", "1.00 Gbit/s"],
    [-999.9999e6, "bit/s", "−1.00 Gbit/s"],
    [999.4, "B/s", "999 B/s"],
    [999.5, "B/s", "1.00 kB/s"],
    [999.6e15, "B/s", "1000 PB/s"], // there is no larger prefix
    [9.994e6, "B/s", "9.99 MB/s"],
    [9.996e6, "B/s", "10.0 MB/s"],
    [99.94e6, "B/s", "99.9 MB/s"],
    [99.96e6, "B/s", "100 MB/s"],
    [1023.4 * 1024, "B", "1023 KiB"],
    [1023.5 * 1024, "B", "1.00 MiB"],
    [1023.9 * 1024, "B", "1.00 MiB"],
    [1023, "B", "1023 B"],
    [1023.9, "B", "1.00 KiB"],
    [1023.9 * 2 ** 40, "B", "1.00 PiB"],
    [999.4e3, "ns", "999 µs"],
    [999.6e3, "ns", "1.00 ms"],
    [999.6, "ns", "1.00 µs"],
    [3599.4e9, "ns", "3599 s"],
    [3599.6e9, "ns", "1.00 h"],
    [999.6, "event/s", "1.00 k event/s"],
    [0.9994, "ratio", "99.9 %"],
    [0.9996, "ratio", "100.0 %"],
    [1.002, "ratio", "100.2 %"],
    [0.09996, "ratio", "10.0 %"],
    [0.9996, "1", "1.00"],
    [0.009994, "1", "0.00999"],
  ];
  it.each(edges)("rounds %f %s at the edge of a prefix to %s", (v, unit, want) => {
    expect(humane(v, unit)).toBe(want);
  });

  const spans: [number, string][] = [
    [999.4, "999 ms"],
    [999.6, "1 s"],
    [59_940, "59.9 s"],
    [59_960, "1 min"],
    [119_600, "2 min"],
    [3_599_600, "1 h"],
  ];
  it.each(spans)("rounds a span of %f ms to %s", (ms, want) => {
    expect(howLong(ms)).toBe(want);
  });

  it("shows bytes per second as bits when asked, and sizes never", () => {
    expect(humane(1e6, "B/s", "bit")).toBe("8.00 Mbit/s");
    expect(humane(1 << 20, "B", "bit")).toBe("1.00 MiB");
  });

  it("has one scale a column: a small value is less than, and only a measured zero is 0", () => {
    const s = scaleFor("B/s", 9.5e6);
    expect([9.5e6, 1e5, 4e3, 0, NaN, -1e6, -10].map((v) => show(v, s))).toEqual([
      "9.50",
      "0.10",
      "<0.01",
      "0",
      "–",
      "−1.00",
      ">−0.01",
    ]);
  });

  it("shows the raw value with all its digits", () => {
    expect(raw(736123456.5, "B/s")).toBe("736\u202f123\u202f456.5 B/s");
    expect(raw(NaN, "B/s")).toBe("not measured");
    expect(raw(0.1, "ratio")).toBe("0.1 ratio");
    expect(digits(Math.fround(0.1))).toBe("0.1");
    expect(digits(1e21)).toBe("1\u202f000\u202f000\u202f000\u202f000\u202f000\u202f000\u202f000");
    expect(digits(-1234.5)).toBe("−1234.5");
    for (const v of [0.3815, 1 / 3, 14152981.33, 123456789.123, 1.003174338296716])
      expect(Math.abs(Number(digits(v).replaceAll("\u202f", "")) / v - 1)).toBeLessThan(1e-9);
    expect(digits(24431489024)).toBe("24\u202f431\u202f489\u202f024");
    for (const v of [1 / 3, 14152981.33, 1e-7].map(Math.fround))
      expect(Math.fround(Number(digits(v).replaceAll("\u202f", "")))).toBe(v);
  });

  it("marks an axis at round numbers of the unit that is shown", () => {
    const of = (max: number, unit: string, wire: "byte" | "bit" = "byte"): string[] =>
      marks(0, max, unit, scaleFor(unit, max, wire), 4).labels;
    expect(of(736e6, "B/s")).toEqual(["0", "200", "400", "600"]);
    expect(of(1e6, "B/s", "bit")).toEqual(["0", "2", "4", "6", "8"]);
    expect(of(2 ** 30 * 22, "B")).toEqual(["0", "8", "16"]);
    expect(of(0.05, "ratio")).toEqual(["0", "2", "4"]);
    expect(marks(-5, 5, "1", scaleFor("1", 5), 4).values).toEqual([-5, 0, 5]);
    expect(marks(0, NaN, "1", scaleFor("1", NaN), 4).labels).toEqual(["0"]);
    expect([0.3, 1, 1.1, 4, 7].map(roundStep)).toEqual([0.5, 1, 2, 5, 10]);
  });

  it("marks a logarithmic axis at powers with prefixes of their own", () => {
    const of = (low: number, high: number, unit: string, wire: "byte" | "bit" = "byte"): string[] =>
      logMarks(low, high, unit, wire).labels;
    expect(of(1, 1e3, "ns")).toEqual(["1 ns", "10 ns", "100 ns", "1 µs"]);
    expect(of(1e5, 1e9, "bit/s")).toEqual(["100 k", "1 M", "10 M", "100 M", "1 G"]);
    expect(of(1024, 2 ** 30, "B")).toEqual(["1 Ki", "1 Mi", "1 Gi"]);
    expect(of(2, 9, "event/s")).toEqual([]);
    expect(logMarks(1, 1e12, "B/s").values).toEqual([1, 1e3, 1e6, 1e9, 1e12]);
    expect(logMarks(999, 1001, "B/s").values).toEqual([1000]);
  });

  it("names spans", () => {
    expect([0, 250, 1000, 90e3, 3600e3, 5400e3, 86400e3, 604800e3].map(howLong)).toEqual([
      "0 s",
      "250 ms",
      "1 s",
      "1 min 30 s",
      "1 h",
      "1 h 30 min",
      "1 d",
      "7 d",
    ]);
  });
});
