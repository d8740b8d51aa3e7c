import { describe, expect, it } from "vitest";
import { digits, howLong, humane, marks, raw, roundStep, scaleFor, show } from "./units";

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
