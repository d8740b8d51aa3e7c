import { describe, expect, it } from "vitest";
import { cellAt, endOf, FormatError, fromBinary, fromJSON, idOf, keyOf } from "./columns";

function binary(head: object, floats: number[], cut = 0): ArrayBuffer {
  const text = new TextEncoder().encode(JSON.stringify(head));
  const at = (12 + text.length + 7) & ~7;
  const buffer = new ArrayBuffer(at + floats.length * 4 - cut);
  const bytes = new Uint8Array(buffer);
  bytes.set(new TextEncoder().encode("CLPT"));
  bytes[4] = 1;
  bytes[5] = 4;
  const view = new DataView(buffer);
  view.setUint32(8, text.length, true);
  bytes.set(text, 12);
  floats.forEach((f, i) => {
    if (at + i * 4 + 4 <= buffer.byteLength) view.setFloat32(at + i * 4, f, true);
  });
  return buffer;
}

const head = {
  query: "net.device.bytes by device",
  kind: "delta",
  unit: "B/s",
  start_ms: 10000,
  step_ms: 1000,
  elapsed_ms: [1000, 0, 1001.5],
  by: ["device"],
  rows: 7,
  loss: [{ reason: "clock set", events: 0 }],
  notes: ["a note"],
};

describe("columns", () => {
  it("reads the binary form: values, band, rest; NaN stays NaN", () => {
    const a = fromBinary(
      binary(
        {
          ...head,
          series: [
            { key: ["eth0"], minmax: true },
            { key: ["lo"], minmax: false },
          ],
          rest: { rows: 5 },
        },
        [1, NaN, 3, 0.5, NaN, 2, 1.5, NaN, 9, 0, NaN, 0, 7, NaN, 8],
      ),
    );
    expect(a.series.map((s) => s.id)).toEqual(["eth0", "lo"]);
    expect(Array.from(a.series[0]!.values)).toEqual([1, NaN, 3]);
    expect(Array.from(a.series[0]!.min!)).toEqual([0.5, NaN, 2]);
    expect(Array.from(a.series[0]!.max!)).toEqual([1.5, NaN, 9]);
    expect(a.series[1]!.min).toBeNull();
    expect(Array.from(a.series[1]!.values)).toEqual([0, NaN, 0]);
    expect(a.rest?.rows).toBe(5);
    expect(Array.from(a.rest!.values)).toEqual([7, NaN, 8]);
    expect(a.rows).toBe(7);
    expect(endOf(a)).toBe(13000);
  });

  it("reads the JSON form as the same answer: null is NaN and never 0", () => {
    const a = fromJSON({
      ...head,
      series: [{ key: ["eth0"], values: [1, null, 3], min: [0.5, null, 2], max: [1.5, null, 9] }],
      rest: { rows: 5, values: [7, null, 8] },
    });
    expect(Array.from(a.series[0]!.values)).toEqual([1, NaN, 3]);
    expect(Array.from(a.series[0]!.max!)).toEqual([1.5, NaN, 9]);
    expect(Array.from(a.rest!.values)).toEqual([7, NaN, 8]);
    expect(a.loss[0]!.reason).toBe("clock set");
  });

  it("has NaN where the JSON form has too few values", () => {
    expect(
      Array.from(fromJSON({ ...head, series: [{ key: ["x"], values: [1] }] }).series[0]!.values),
    ).toEqual([1, NaN, NaN]);
  });

  it("takes an answer with nothing in it", () => {
    const a = fromJSON({ ...head, by: null, series: null, loss: null, notes: null });
    expect([a.by, a.series, a.rest]).toEqual([[], [], null]);
  });

  it("refuses what is no answer, another version, and what was cut short", () => {
    expect(() => fromBinary(new ArrayBuffer(3))).toThrow(FormatError);
    expect(() =>
      fromBinary(new TextEncoder().encode('{"error":{"code":"x"}}').buffer as ArrayBuffer),
    ).toThrow(FormatError);
    const later = binary({ ...head, series: [] }, []);
    new Uint8Array(later)[4] = 2;
    expect(() => fromBinary(later)).toThrow(/newer version/);
    expect(() => fromBinary(binary({ ...head, series: [{ key: ["a"] }] }, [1, 2, 3], 4))).toThrow(
      /truncated/,
    );
  });

  it("keeps keys apart that would be one text with a space between", () => {
    expect(idOf(["a b", "c"])).not.toBe(idOf(["a", "b c"]));
    expect(keyOf(idOf(["a b", ""]), 2)).toEqual(["a b", ""]);
    expect(keyOf(idOf([]), 0)).toEqual([]);
  });

  it("says which cell holds a moment: cells are open at their start and closed at their end", () => {
    const grid = { start: 10000, step: 1000, elapsed: [1, 1, 1] };
    expect([10000, 10001, 11000, 11001, 13000, 13001].map((t) => cellAt(grid, t))).toEqual([
      -1, 0, 0, 1, 2, -1,
    ]);
  });
});
