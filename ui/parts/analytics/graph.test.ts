import { describe, expect, it } from "vitest";
import { parse } from "../../data/drill";
import {
  commandLine,
  commandLines,
  first,
  notRecorded,
  optionsFor,
  parseOptions,
  plain,
  printOptions,
} from "./graph";

describe("how a graph is shown", () => {
  it("is the same after print and parse, whatever the labels are", () => {
    for (const o of [
      plain,
      { ...plain, lines: true },
      { ...plain, box: { from: 1e12, to: 1e12 + 3000, low: 49152, high: 20971520 } },
      { ...plain, stack: true, heat: true, wire: "bit" as const, crop: 0.1, table: true },
      {
        ...plain,
        selected: [
          ["eth0", "rx"],
          ["a b,c=d|%", ""],
        ],
        hidden: [["ö"]],
      },
      {
        ...plain,
        wider: ['net.device.bytes where direction = "a b,c=d"', "cpu.time where cpu > 3"],
      },
    ])
      expect(parseOptions(printOptions(o))).toEqual(o);
    expect(printOptions(plain)).toBe("");
  });
  it("is the default where a text makes no sense", () => {
    for (const bad of [
      undefined,
      "",
      "nothing",
      "crop=7",
      "sel=%E0%A4%A",
      "crop=",
      "box=",
      "box=1,2,3",
      "box=2,1,3,4",
      "box=1,2,4,3",
      "box=1,2,-3,4",
      "box=1,2,x,4",
      "box=1,2,3,Infinity",
      "box=1,2,3,4,5",
    ])
      expect(parseOptions(bad)).toEqual(plain);
  });
  it("keeps what it is not narrowed by while its statistic stays", () => {
    const o = { ...plain, selected: [["a"]], wider: ['net.device.bytes where direction = "rx"'] };
    expect(optionsFor(o, "net.device.speed", 'net.device.speed where device = "lo"')).toEqual({
      ...o,
      selected: [],
    });
    const boxed = { ...plain, box: { from: 1, to: 2, low: 0, high: 9 } };
    expect(optionsFor(boxed, "disk.latency", "disk.latency by process").box).toEqual(boxed.box);
    expect(optionsFor(boxed, "disk.latency", "syscall.latency").box).toBeNull();
    expect(optionsFor(o, "net.device.speed", "cpu.time by mode")).toEqual(plain);
  });
  it("begins with sentences that can be taken apart", () => {
    for (const [q] of first) expect(parse(q), q).not.toBeNull();
  });
  it("is a command line that a shell takes as it is meant", () => {
    const t = Date.UTC(2026, 10, 21, 18, 0, 0, 400);
    expect(commandLine(`process.cpu where process = "it's"`, t, t + 60_000, 1000, false)).toBe(
      `culprit stat 'process.cpu where process = "it'\\''s"' 1 --from 2026-11-21T18:00:00Z --to 2026-11-21T18:01:00Z`,
    );
    expect(commandLine("cpu.time", t, t + 60_000, 1000, true, "db's")).toMatch(
      / --to \S+ --host 'db'\\''s'$/,
    );
    expect(commandLine("net.device.bytes", t, t + 600_000, 5000, true)).toMatch(
      /' 5 --from .* --netns all$/,
    );
  });
  it("is two commands where it is compared with an earlier time", () => {
    const t = Date.UTC(2026, 10, 21, 18);
    const line = (...a: [number, number]): string => commandLine("cpu.time", ...a, 1000, false);
    const one = [t, t + 60_000] as const;
    expect(commandLines(0, "cpu.time", ...one, 1000, false)).toBe(line(...one));
    expect(commandLines(3_600_000, "cpu.time", ...one, 1000, false)).toBe(
      `${line(...one)}; culprit stat 'cpu.time' 1 --from 2026-11-21T17:00:00Z --to 2026-11-21T17:01:00Z`,
    );
  });
});

it("says in few words why a query has no answer", () => {
  const ask = 'ask syscall.latency by process where process in ("a: b")';
  expect(notRecorded(`${ask}: it was never recorded: could not tell`)).toBe("not recorded yet");
  expect(
    notRecorded(
      "ask x by y: no dataset has all that it needs; recorded is: x by z: could not tell",
    ),
  ).toBe("no dataset has all that it needs; recorded is: x by z");
  expect(notRecorded("the server is away")).toBe("the server is away");
});
