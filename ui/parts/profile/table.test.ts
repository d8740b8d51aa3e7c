import { describe, expect, it } from "vitest";
import { rowsOf } from "../../data/calls";
import { folded } from "../../data/folded";
import { amount, change, describeCall, plain, share } from "./amount";
import { csvOf, order } from "./table";

const calls = folded("main;b 3\nmain;a 3\nmain;lib`c,d;a 1\n");
const rows = rowsOf(calls);
const names = (list: number[]) => list.map((i) => calls.functions.names[i]);

describe("the table of functions", () => {
  it("is sorted by any column, by name where two are the same", () => {
    expect(names(order(calls.functions, rows, null, "self", false))).toEqual([
      "a",
      "b",
      "main",
      "c,d",
    ]);
    expect(names(order(calls.functions, rows, null, "total", false))).toEqual([
      "main",
      "a",
      "b",
      "c,d",
    ]);
    expect(names(order(calls.functions, rows, null, "name", true))).toEqual([
      "main",
      "c,d",
      "b",
      "a",
    ]);
    expect(names(order(calls.functions, rows, null, "module", false))).toEqual([
      "a",
      "b",
      "main",
      "c,d",
    ]);
    const found = Uint8Array.from(calls.functions.names, (n) => (n === "a" ? 1 : 0));
    expect(names(order(calls.functions, rows, found, "self", false))).toEqual(["a"]);
  });
  it("is CSV with all digits", () => {
    const list = order(calls.functions, rows, null, "total", false);
    expect(csvOf(calls.functions, rows, list, "samples").split("\r\n")).toEqual([
      "function,place,kind,self (samples),total (samples)",
      "main,,program,0,7",
      "a,,program,4,4",
      "b,,program,3,3",
      '"c,d",lib,program,0,1',
      "",
    ]);
  });
  it("of a comparison is sorted by the change", () => {
    const c = folded("main;b 9 3\nmain;a 1 2\nmain;new 0 30\n");
    const r = rowsOf(c);
    expect(order(c.functions, r, null, "change", false).map((i) => c.functions.names[i])).toEqual([
      "new",
      "b",
      "a",
      "main",
    ]);
  });
});

describe("amounts", () => {
  const samples = { unit: "samples", share: false };
  it("are said exactly", () => {
    expect(amount(samples, 12345)).toBe("12\u202f345 samples");
    expect(amount(samples, 1)).toBe("1 sample");
    expect(amount({ unit: "ns", share: false }, 2_900_000)).toBe("2.90 ms");
    expect(amount({ unit: "", share: true }, 0.0413)).toBe("4.13 %");
    expect(plain(0.123456)).toBe("0.1235");
    expect(share(0, 5)).toBe("0 %");
    expect(share(1e-6, 1)).toBe("<0.01 %");
    expect(share(5, 5)).toBe("100 %");
    expect(share(1, 0)).toBe("–");
    expect(change(samples, -3)).toBe("\u22123 samples");
    expect(change(samples, 0)).toBe("0");
  });
  it("of a call have shares", () => {
    const p = {
      ...calls,
      ...samples,
      samples: 7,
      seconds: 0,
      notes: [],
      norm: "",
      of: 0,
      times: null,
      lines: null,
    };
    expect(describeCall(p, calls, 1)).toBe("7 samples, 100 %, of it 0, 0 %, in itself");
    const d = folded("main;b 9 3\n");
    expect(describeCall({ ...p, ...d }, d, 2)).toBe(
      "9 samples before, 3 samples after: \u22126 samples; in itself \u22126 samples",
    );
  });
});
