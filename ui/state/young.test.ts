import { expect, it } from "vitest";
import { fresh, hour, minute, second } from "./time";
import { exact, inSight, isYoung, resumed, spanSince, stillInSight, zoomedInSight } from "./young";

const began = 1_800_000_000_000;
const live = (span: number) => ({ kind: "live", span }) as const;

it("asks for little more than was recorded, and for the whole range later", () => {
  const at = (age: number) => spanSince(10 * minute, began, began + age);
  expect([3 * second, minute, minute + 1, 9 * minute, 3 * hour].map(at)).toEqual(
    [1, 1, 2, 10, 10].map((n) => n * minute),
  );
  expect(spanSince(hour, 0, began)).toBe(hour);
  expect(spanSince(5 * second, began, began + minute)).toBe(5 * second);
});

it("shows nothing before the recording began, but ten seconds at least", () => {
  expect(inSight(live(10 * minute), began, began + 3 * minute)).toEqual({
    from: began,
    to: began + 3 * minute,
  });
  expect(inSight(live(10 * minute), began, began + 4 * second).from).toBe(began - 6 * second);
  expect(inSight(live(minute), began, began + hour).from).toBe(began + hour - minute);
  expect(inSight({ kind: "past", from: 1, to: 2 }, began, began)).toEqual({ from: 1, to: 2 });
});

it("says so only of a live range that is longer than the recording", () => {
  expect(isYoung(fresh, began, began + minute)).toBe(true);
  expect(isYoung(fresh, began, began + 10 * minute)).toBe(false);
  expect(isYoung({ kind: "past", from: 1, to: 2 }, began, began)).toBe(false);
  expect(isYoung(fresh, 0, began)).toBe(false);
});

it("pauses, moves and zooms what is in sight, and resumes the usual range", () => {
  const now = began + 2 * minute;
  const paused = stillInSight(fresh, began, now);
  expect(paused).toEqual({ kind: "past", from: began, to: now });
  expect(resumed(paused, began, fresh)).toBe(fresh);
  expect(resumed(paused, began - hour, fresh)).toEqual(live(2 * minute));
  expect(exact(fresh, began, now)).toEqual(live(2 * minute));
  expect(zoomedInSight(fresh, 0.5, began, now)).toEqual(live(minute));
  expect(zoomedInSight(fresh, 2, began, now)).toEqual(live(20 * minute));
});
