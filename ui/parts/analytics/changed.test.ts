import { describe, expect, it } from "vitest";
import type { Difference } from "../../data/api";
import { parse } from "../../data/drill";
import { changedLine, explained, inOnePicture, ratioText, sidesOf } from "./changed";

const at = Date.UTC(2026, 10, 21, 14, 0, 0);
const now = at + 3_600_000;

describe("the times that are compared", () => {
  const cases: [string, number, number, string, unknown][] = [
    [
      "the time before",
      at,
      at + 60_000,
      "before",
      { before: { from: at - 60_000, to: at }, after: { from: at, to: at + 60_000 } },
    ],
    [
      "marks the other way round",
      at + 60_000,
      at,
      "before",
      { before: { from: at - 60_000, to: at }, after: { from: at, to: at + 60_000 } },
    ],
    [
      "an hour earlier",
      at,
      at + 60_000,
      "hour",
      {
        before: { from: at - 3_600_000, to: at - 3_540_000 },
        after: { from: at, to: at + 60_000 },
      },
    ],
    [
      "a week earlier",
      at,
      at + 5000,
      "week",
      {
        before: { from: at - 604_800_000, to: at - 604_795_000 },
        after: { from: at, to: at + 5000 },
      },
    ],
    [
      "B against A",
      at,
      at + 600_000,
      "around",
      {
        before: { from: at - 30_000, to: at + 30_000 },
        after: { from: at + 570_000, to: at + 630_000 },
      },
    ],
    [
      "B just now",
      now - 600_000,
      now,
      "around",
      {
        before: { from: now - 630_000, to: now - 570_000 },
        after: { from: now - 60_000, to: now },
      },
    ],
    [
      "typed",
      at,
      at + 5000,
      "2026-11-21T13:00:00Z..2026-11-21T13:10:00Z",
      { before: { from: at - 3_600_000, to: at - 3_000_000 }, after: { from: at, to: at + 5000 } },
    ],
    [
      "typed and too short",
      at,
      at + 5000,
      "2026-11-21T13:00:00Z..2026-11-21T13:00:02Z",
      "the time to compare with is too short: three seconds or more",
    ],
    ["too close", at, at + 2000, "before", "A and B are too close: three seconds or more"],
    [
      "just long enough",
      at,
      at + 3000,
      "before",
      { before: { from: at - 3000, to: at }, after: { from: at, to: at + 3000 } },
    ],
    [
      "nonsense is the time before",
      at,
      at + 3000,
      "x..y",
      { before: { from: at - 3000, to: at }, after: { from: at, to: at + 3000 } },
    ],
  ];
  it.each(cases)("%s", (_, a, b, against, want) =>
    expect(sidesOf(a, b, against, now)).toEqual(want));
});

describe("how much", () => {
  it.each([
    [0, 5, "from nothing"],
    [5, 0, "to nothing"],
    [2, 6.2, "3.1 times"],
    [100, 12, "88 % less"],
    [-2, -6, "3 times"],
  ])("%d to %d", (a, b, want) => expect(ratioText(a, b)).toBe(want));
});

describe("a change", () => {
  const c = { statistic: "net.device.bytes" } as Difference;
  it("is shown among the others of its field, with its other terms", () => {
    const q = parse('net.device.bytes where device = "eth0" and direction = "rx"');
    expect(explained(c, q, "device")).toBe('net.device.bytes by device where direction = "rx"');
  });
  it("has both times in one picture where they are near", () => {
    expect(inOnePicture({ from: at - 60_000, to: at }, { from: at, to: at + 60_000 }, now)).toEqual(
      { from: at - 66_000, to: at + 66_000 },
    );
  });
  it("has the later time alone where they are a day apart", () => {
    expect(
      inOnePicture(
        { from: at - 86_400_000, to: at - 86_340_000 },
        { from: at, to: at + 60_000 },
        now,
      ),
    ).toEqual({ from: at - 30_000, to: at + 90_000 });
  });
  it("is the same question on a command line", () => {
    expect(changedLine({ from: at - 60_000, to: at }, { from: at, to: at + 60_000 })).toBe(
      "culprit changed --from 2026-11-21T14:00:00Z --to 2026-11-21T14:01:00Z --against 2026-11-21T13:59:00Z..2026-11-21T14:00:00Z",
    );
  });
});
