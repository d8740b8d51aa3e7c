import { describe, expect, it } from "vitest";
import { parseMoment, parseTyped } from "./moment";
import type { Range } from "./time";

const now = new Date(2026, 10, 27, 13, 30, 15).getTime();
const at = (year: number, month: number, date: number, hour: number, minute: number, second = 0) =>
  new Date(year, month, date, hour, minute, second).getTime();

it("reads moments as people type them", () => {
  expect(parseMoment("yesterday 14:00", now)).toBe(at(2026, 10, 26, 14, 0));
  expect(parseMoment("13:05", now)).toBe(at(2026, 10, 27, 13, 5));
  expect(parseMoment("14:00:05", now)).toBe(at(2026, 10, 26, 14, 0, 5));
  expect(parseMoment("2026-11-21 17:52", now)).toBe(at(2026, 10, 21, 17, 52));
  expect(parseMoment("2026-11-21", now)).toBe(at(2026, 10, 21, 12, 0));
  expect(parseMoment("2 h ago", now)).toBe(now - 7_200_000);
  expect(parseMoment("5 min ago", now)).toBe(now - 300_000);
  expect(parseMoment("2 hours ago", now)).toBe(now - 7_200_000);
  expect(parseMoment("a day ago", now)).toBe(now - 86_400_000);
  expect(parseMoment("-90s", now)).toBe(now - 90_000);
});

it("reads nothing else", () => {
  for (const text of [
    "",
    "14",
    "25:00",
    "12:60",
    "tomorrow",
    "2026-02-31 10:00",
    "2030-01-01",
    "today 23:00",
    "x ago",
    "-",
  ])
    expect(parseMoment(text, now), text).toBeNull();
});

describe("ranges as people type them", () => {
  const utc = () => 0;
  const clock = Date.UTC(2026, 10, 27, 13, 30, 15);
  const on = (date: number, hour: number, minute = 0) => Date.UTC(2026, 10, date, hour, minute);
  const past = (from: number, to: number): Range => ({ kind: "past", from, to });
  const cases: [string, Range | string][] = [
    ["-2h", { kind: "live", span: 7_200_000 }],
    ["2h", { kind: "live", span: 7_200_000 }],
    ["last 10 min", { kind: "live", span: 600_000 }],
    ["last 20 minutes", { kind: "live", span: 1_200_000 }],
    ["last 2 Hours", { kind: "live", span: 7_200_000 }],
    ["last hour", { kind: "live", span: 3_600_000 }],
    ["1 hour 30 min", { kind: "live", span: 5_400_000 }],
    ["13:00-13:10", past(on(27, 13), on(27, 13, 10))],
    ["yesterday 14:00–15:00", past(on(26, 14), on(26, 15))],
    ["2026-11-21T17:00:00Z - 2026-11-21T18:00:00Z", past(on(21, 17), on(21, 18))],
    ["3 hours ago..an hour ago", past(clock - 10_800_000, clock - 3_600_000)],
    ["-1h30m", { kind: "live", span: 5_400_000 }],
    ["yesterday 14:00..15:00", past(on(26, 14), on(26, 15))],
    ["yesterday 23:50..0:10", past(on(26, 23, 50), on(27, 0, 10))],
    ["13:00..13:10", past(on(27, 13), on(27, 13, 10))],
    ["13:00 to 13:10", past(on(27, 13), on(27, 13, 10))],
    ["14:00..15:00", past(on(26, 14), on(26, 15))],
    ["13:20..14:00", past(on(27, 13, 20), clock)],
    ["2026-11-21 17:00..18:00", past(on(21, 17), on(21, 18))],
    ["2026-11-21T17:00:00Z..2026-11-22T18:00:00Z", past(on(21, 17), on(22, 18))],
    ["-2h..-1h", past(clock - 7_200_000, clock - 3_600_000)],
    ["13:00..", past(on(27, 13), clock)],
    ["13:00..now", past(on(27, 13), clock)],
    ["yesterday", past(on(26, 0), on(27, 0))],
    ["today", past(on(27, 0), clock)],
    ["2026-11-21", past(on(21, 0), on(22, 0))],
    ["12:00", past(on(27, 11, 55), on(27, 12, 5))],
    ["12:00 utc..12:30 utc", past(on(27, 12), on(27, 12, 30))],
    ["1s", "at least five seconds"],
    ["-900d", "at most 400 days"],
    ["2027-01-01..2027-01-02", "that is not yet"],
    ["2026-11-21 18:00..2026-11-21 17:00", "it ends before it begins"],
    ["13:00..13:05..13:10", "one BEGIN..END"],
  ];
  it.each(cases)("%s", (text, want) => expect(parseTyped(text, clock, utc)).toEqual(want));
  it("of another zone", () =>
    expect(parseTyped("14:00..14:10", clock, () => 60)).toEqual(past(on(27, 13), on(27, 13, 10))));
  it("says what it takes", () =>
    expect(parseTyped("at lunch", clock, utc)).toContain("yesterday 14:00..15:00"));
});
