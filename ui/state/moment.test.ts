import { expect, it } from "vitest";
import { parseMoment } from "./moment";

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
