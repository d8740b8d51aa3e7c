import { describe, expect, it } from "vitest";
import { clock, moment, timeMarks } from "./axis";

const utc = (): number => 0;
const berlin = (ms: number): number =>
  ms >= Date.UTC(2026, 2, 29, 1) && ms < Date.UTC(2026, 9, 25, 1) ? 120 : 60;

describe("time axis", () => {
  it("has round marks that fit", () => {
    const from = Date.UTC(2026, 10, 21, 17, 52, 40);
    const marks = timeMarks(from, from + 600_000, 1000, 90, utc);
    expect(marks.map((m) => m.label)).toEqual([
      "17:53",
      "17:54",
      "17:55",
      "17:56",
      "17:57",
      "17:58",
      "17:59",
      "18:00",
      "18:01",
      "18:02",
    ]);
    for (const span of [1000, 60e3, 3600e3, 86400e3, 7 * 86400e3, 365 * 86400e3]) {
      const m = timeMarks(from, from + span, 800, 90, utc);
      expect(m.length).toBeGreaterThan(2);
      expect(m.length).toBeLessThan(10);
    }
  });

  it("names the day where a new one begins", () => {
    const from = Date.UTC(2026, 10, 21, 22);
    const marks = timeMarks(from, from + 4 * 3600e3, 500, 90, utc);
    expect(marks.map((m) => [m.label, m.major])).toEqual([
      ["22:00", false],
      ["23:00", false],
      ["22 Nov", true],
      ["01:00", false],
      ["02:00", false],
    ]);
  });

  it("is round in local time, also across a change of the clock", () => {
    const from = Date.UTC(2026, 2, 28, 23); // midnight in Berlin, of a day of 23 hours
    const marks = timeMarks(from, from + 23 * 3600e3, 1000, 90, berlin);
    expect(marks.map((m) => m.label)).toEqual([
      "29 Mar",
      "03:00",
      "06:00",
      "09:00",
      "12:00",
      "15:00",
      "18:00",
      "21:00",
      "30 Mar",
    ]);
    expect(marks[1]!.ms - marks[0]!.ms).toBe(2 * 3600e3);
  });

  it("formats a moment in full", () => {
    const t = Date.UTC(2026, 0, 2, 3, 4, 5, 60);
    expect([moment(t, utc), clock(t, utc), moment(t - 60, berlin)]).toEqual([
      "2026-01-02 03:04:05.060",
      "03:04:05",
      "2026-01-02 04:04:05",
    ]);
  });
});
