import { describe, expect, it } from "vitest";
import { type Answer, fromJSON } from "../../data/columns";
import { caveats, differenceText, lay, missing } from "./earlier";
import { parseEarlier, parseOptions, plain, printOptions } from "./graph";
import { compose, ranking } from "./scene";

const answer = (rows: Record<string, (number | null)[]>, over: object = {}): Answer =>
  fromJSON({
    query: "q",
    kind: "delta",
    unit: "B/s",
    start_ms: 100_000,
    step_ms: 1000,
    elapsed_ms: [1000, 1000, 1000, 1000],
    by: ["d"],
    series: Object.entries(rows).map(([k, values]) => ({ key: [k], values })),
    ...over,
  });
const now = answer({ a: [1, 2, 3, 4], b: [10, 20, 30, 40] });
const utc = () => 0;
const list = (c: ArrayLike<number> | null | undefined) => Array.from(c ?? []);

describe("the rows of an earlier time", () => {
  it("are laid cell on cell", () => {
    const l = lay(now, answer({ a: [5, 6, 7, 8] }, { start_ms: 40_000 }), 60_000);
    expect(list(l.rows.get("a"))).toEqual([5, 6, 7, 8]);
    expect(l.rows.has("b")).toBe(false);
  });

  it("are not known where nothing was recorded, and that is counted", () => {
    const gap = { start_ms: 40_000, elapsed_ms: [1000, 0, 0, 1000] };
    const l = lay(now, answer({ a: [5, null, null, 8] }, gap), 60_000);
    expect(list(l.rows.get("a"))).toEqual([5, Number.NaN, Number.NaN, 8]);
    expect(missing(l, now, 0, 4)).toBe(2000);
    expect(caveats(l, now, 60_000, { from: 0, to: 4 }, ["the clock was set back"], utc)).toEqual([
      "1970-01-01 00:00:40 to 00:00:44",
      "nothing was recorded for 2 s of it",
      "the clock was set back",
    ]);
    expect(caveats(l, now, 60_000, { from: 1, to: 3 }, [], utc)[1]).toBe(
      "nothing was recorded then",
    );
  });

  it("are not known, and not missing, where they were not asked for", () => {
    const l = lay(now, answer({ a: [5, 6, 7, 8] }, { start_ms: 42_000 }), 60_000);
    expect(list(l.rows.get("a"))).toEqual([Number.NaN, Number.NaN, 5, 6]);
    expect(missing(l, now, 0, 4)).toBe(0);
  });

  it("of longer cells are repeated, and the length is named", () => {
    const long = { start_ms: 38_000, step_ms: 4000, elapsed_ms: [4000, 4000] };
    const l = lay(now, answer({ a: [5, 6] }, long), 60_000);
    expect(list(l.rows.get("a"))).toEqual([5, 5, 6, 6]);
    expect(caveats(l, now, 60_000, { from: 0, to: 4 }, [], utc)).toContain("kept in cells of 4 s");
  });

  it("of shorter cells are not known: one of them is no mean", () => {
    const short = { start_ms: 40_000, step_ms: 500 };
    expect(list(lay(now, answer({ a: [5, 6, 7, 8] }, short), 60_000).rows.get("a"))).toEqual(
      Array(4).fill(Number.NaN),
    );
  });

  it("that are absent are 0 only where all rows were sent and absence says so", () => {
    const over = { start_ms: 40_000, sparse: true, elapsed_ms: [1000, 0, 1000, 1000] };
    const l = lay(now, answer({ a: [5, null, 7, 8] }, over), 60_000);
    expect(list(l.rows.get("b"))).toEqual([0, Number.NaN, 0, 0]);
    const some = lay(now, answer({ a: [5, null, 7, 8] }, { ...over, rows: 9 }), 60_000);
    expect(some.rows.has("b")).toBe(false);
    expect(caveats(some, now, 60_000, { from: 0, to: 1 }, [], utc)).toContain(
      "smaller rows of then are not known",
    );
  });

  it("name another offset of the zone", () => {
    const l = lay(now, answer({}, { start_ms: 40_000 }), 60_000);
    const summer = (ms: number) => (ms < 100_000 ? 120 : 60);
    expect(caveats(l, now, 60_000, { from: 0, to: 4 }, [], summer)).toContain(
      "the time zone's offset from UTC was another one then",
    );
  });

  it("are summed for those that are shown, and fit on the axis", () => {
    const rest = { rows: 3, values: [100, 100, 100, 100] };
    const then = answer(
      { a: [5, 6, 7, 8], b: [1000, 1, 1, 1] },
      { start_ms: 40_000, rows: 5, rest },
    );
    const l = lay(now, then, 60_000);
    const all = { from: 0, to: 4, meanFrom: 0, meanTo: 4 };
    const see = (o: object, stack = false) =>
      compose(
        now,
        ranking(now),
        { ...plain, ...o },
        true,
        stack,
        null,
        all,
        180,
        null,
        undefined,
        l,
      );
    expect(list(see({}).totalEarlier)).toEqual([1105, 107, 108, 109]);
    expect(see({}).high).toBeGreaterThan(1000);
    expect(see({}, true).high).toBeGreaterThan(1105);
    expect(list(see({ selected: [["a"]] }).totalEarlier)).toEqual([5, 6, 7, 8]);
    expect(see({ selected: [["a"]] }).high).toBeLessThan(10);
    expect(list(see({ hidden: [["b"]] }).totalEarlier)).toEqual([105, 106, 107, 108]);
    // What is hidden now and was not sent then is somewhere in the rest.
    expect(see({ hidden: [["c"]] }).totalEarlier).toBeNull();
  });

  it("are in the address", () => {
    for (const [text, ms] of [
      ["earlier=1h", 3_600_000],
      ["earlier=1d", 86_400_000],
      ["earlier=7d", 604_800_000],
      ["earlier=1m30s", 90_000],
    ] as const) {
      expect(parseOptions(text).earlier).toBe(ms);
      expect(printOptions({ ...plain, earlier: ms })).toBe(text);
    }
    for (const text of ["earlier=9s", "earlier=401d", "earlier=", "earlier=-1h", "earlier=x"])
      expect(parseOptions(text).earlier, text).toBe(0);
    expect(parseEarlier(" 2 h ")).toBe(7_200_000);
    expect(parseEarlier("9s")).toBe("at least 10s");
    expect(parseEarlier("10s")).toBe(10_000);
    expect(parseEarlier("soon")).toContain("such as");
  });

  it("differ by an amount and a share", () => {
    expect(differenceText(150, 100, "B/s")).toBe("+50 B/s (+50 %)");
    expect(differenceText(75, 100, "B/s")).toContain("(-25 %)");
    expect(differenceText(75, 0, "B/s")).toBe("+75 B/s");
    expect(differenceText(75, Number.NaN, "B/s")).toBe("");
  });
});
