import { afterEach, describe, expect, it, vi } from "vitest";
import type { Difference } from "../../data/api";
import { parse } from "../../data/drill";
import { changedLine, differences, explained, inOnePicture, ratioText, sidesOf } from "./changed";

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

describe("a comparison that goes on", () => {
  afterEach(() => vi.unstubAllGlobals());

  const report = (compared: number): object => ({
    before: {},
    after: {},
    compared,
    changes: [],
    notes: [],
  });
  const event = (name: string, data: object): string =>
    `event: ${name}\ndata: ${JSON.stringify(data)}\n\n`;
  /** What differences reports of events: the numbers of its parts, then its end. */
  const of = async (...events: string[]): Promise<unknown[]> => {
    const asked: [string, RequestInit][] = [];
    vi.stubGlobal("fetch", async (input: string, init: RequestInit) => {
      asked.push([input, init]);
      return new Response(events.join(""), { headers: { "Content-Type": "text/event-stream" } });
    });
    const parts: unknown[] = [];
    const end = await differences({ from: "1" }, new AbortController().signal, (p) =>
      parts.push([p.read, p.of, p.report.compared]),
    ).then(
      (r) => r.compared,
      (e: Error) => e.message,
    );
    expect(asked[0]![0]).toBe("api/changed?from=1");
    expect(asked[0]![1].headers).toMatchObject({ Accept: "text/event-stream" });
    return [...parts, end];
  };
  const part = (read: number): string => event("part", { read, of: 9, report: report(read - 1) });

  it("reports its parts and its end, or why there is none", async () => {
    expect(await of(part(3), part(5), event("report", report(8)))).toEqual([
      [3, 9, 2],
      [5, 9, 4],
      8,
    ]);
    const error = { message: "it took too long", code: "busy" };
    expect(await of(part(3), event("error", { error }))).toEqual([[3, 9, 2], "it took too long"]);
    expect(await of(part(3))).toEqual([
      [3, 9, 2],
      "the connection broke before the comparison was complete",
    ]);
  });
});
