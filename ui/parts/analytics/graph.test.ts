import { describe, expect, it } from "vitest";
import { parse } from "../../data/drill";
import { commandLine, first, optionsFor, parseOptions, plain, printOptions } from "./graph";

describe("how a graph is shown", () => {
  it("is the same after print and parse, whatever the labels are", () => {
    for (const o of [
      plain,
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
    for (const bad of [undefined, "", "nothing", "crop=7", "sel=%E0%A4%A", "crop="])
      expect(parseOptions(bad)).toEqual(plain);
  });
  it("keeps what it is not narrowed by while its statistic stays", () => {
    const o = { ...plain, selected: [["a"]], wider: ['net.device.bytes where direction = "rx"'] };
    expect(optionsFor(o, "net.device.speed", 'net.device.speed where device = "lo"')).toEqual({
      ...o,
      selected: [],
    });
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
    expect(commandLine("net.device.bytes", t, t + 600_000, 5000, true)).toMatch(
      /' 5 --from .* --netns all$/,
    );
  });
});
