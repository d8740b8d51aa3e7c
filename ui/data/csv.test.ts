import { describe, expect, it } from "vitest";
import { type Answer, fromJSON } from "./columns";
import { csv, earlierRows } from "./csv";

const answer = (more: object): Answer =>
  fromJSON({
    query: "q",
    kind: "delta",
    unit: "B/s",
    start_ms: 3_600_000,
    step_ms: 1000,
    elapsed_ms: [1000, 0],
    by: ["p"],
    series: [],
    ...more,
  });

describe("rows as CSV", () => {
  it("are numbers, and never formulas of a spreadsheet", () => {
    const a = answer({
      start_ms: 0,
      series: [
        { key: ['a,"b"'], values: [1.5, null] },
        { key: ["=x"], values: [0, -2] },
        { key: ['=y("z",1)'], values: [3, 4] },
      ],
    });
    expect(csv(a).split("\r\n")).toEqual([
      "start,end,measured_s,p,value (B/s)",
      '1970-01-01T00:00:00.000Z,1970-01-01T00:00:01.000Z,1,"a,""b""",1.5',
      "1970-01-01T00:00:00.000Z,1970-01-01T00:00:01.000Z,1,'=x,0",
      `1970-01-01T00:00:00.000Z,1970-01-01T00:00:01.000Z,1,"'=y(""z"",1)",3`,
      '1970-01-01T00:00:01.000Z,1970-01-01T00:00:02.000Z,0,"a,""b""",',
      "1970-01-01T00:00:01.000Z,1970-01-01T00:00:02.000Z,0,'=x,-2",
      `1970-01-01T00:00:01.000Z,1970-01-01T00:00:02.000Z,0,"'=y(""z"",1)",4`,
      "",
    ]);
  });

  it("of an earlier time have its own cells, and a column that says which time", () => {
    const a = answer({ series: [{ key: ["x"], values: [5, null] }] });
    // Kept in longer cells then, with their least and greatest second.
    const then = answer({
      start_ms: 0,
      step_ms: 2000,
      elapsed_ms: [1500],
      series: [{ key: ["x"], values: [7], min: [6], max: [9] }],
    });
    const series = earlierRows(then, a.series, false);
    expect(csv(a, a.series, { answer: then, series, words: "1 h before" }).split("\r\n")).toEqual([
      "time,start,end,measured_s,p,value (B/s),min,max",
      "shown,1970-01-01T01:00:00.000Z,1970-01-01T01:00:01.000Z,1,x,5,,",
      "shown,1970-01-01T01:00:01.000Z,1970-01-01T01:00:02.000Z,0,x,,,",
      "1 h before,1970-01-01T00:00:00.000Z,1970-01-01T00:00:02.000Z,1.5,x,7,6,9",
      "",
    ]);
  });
});

describe("the rows of an earlier time", () => {
  const rows = (names: string[]): object[] => names.map((n) => ({ key: [n], values: [2, 3] }));
  const shown = answer({ series: rows(["x", "y"]) });
  const text = (list: ReturnType<typeof earlierRows>): string[] =>
    list.map((s) => `${s.key[0]} ${[...s.values].join(" ")}`);

  it("are those of the rows that are chosen, else also those that were there only then", () => {
    const then = answer({ series: rows(["z", "y", "x"]) });
    expect(text(earlierRows(then, shown.series.slice(1), true))).toEqual(["y 2 3"]);
    expect(text(earlierRows(then, shown.series, false))).toEqual(["x 2 3", "y 2 3", "z 2 3"]);
  });

  it("are 0 where a row was absent and absence means so, and unknown where nothing was", () => {
    const then = { series: rows(["x"]) };
    expect(text(earlierRows(answer({ ...then, sparse: true }), shown.series, true))).toEqual([
      "x 2 3",
      "y 0 NaN",
    ]);
    expect(text(earlierRows(answer(then), shown.series, true))).toEqual(["x 2 3"]);
    const cut = { ...then, sparse: true, rows: 9 };
    expect(text(earlierRows(answer(cut), shown.series, true))).toEqual(["x 2 3"]);
    const dist = { ...then, sparse: true, kind: "dist", series: [] };
    expect(text(earlierRows(answer(dist), shown.series, true))).toEqual([]);
  });
});
