import { describe, expect, it } from "vitest";
import { parse } from "../../data/drill";
import { excluded, isolated, only, selectedAfter } from "./rows";

const one = parse("cpu.time by mode")!;
const two = parse("net.device.bytes by device,direction where device != lo")!;
const [a, b, c] = [
  ["eth0", "rx"],
  ["eth0", "tx"],
  ["eth1", "rx"],
];

describe("rows of a graph", () => {
  it("are selected by clicks", () => {
    expect(selectedAfter([], a, false)).toEqual([a]);
    expect(selectedAfter([a, b], a, false)).toEqual([a]);
    expect(selectedAfter([a], [...a], false)).toEqual([]);
    expect(selectedAfter([a], b, true)).toEqual([a, b]);
    expect(selectedAfter([a, b], [...a], true)).toEqual([b]);
  });

  it("are isolated by the query where it can name them, else by hiding the others", () => {
    expect(isolated(one, [["user"], ["system"]], [])).toEqual({
      sentence: 'cpu.time by mode where mode in ("user", "system")',
    });
    expect(isolated(two, [b], [a, b, c])).toEqual({
      sentence:
        'net.device.bytes by device,direction where device != "lo" and device = "eth0" and direction = "tx"',
    });
    expect(isolated(two, [b, c], [a, b, c])).toEqual({ options: { hidden: [a], selected: [] } });
    expect(only(two, [b, c])).toBe(two);
  });

  it("are excluded by the query where it can name them, else hidden with those before", () => {
    expect(excluded(one, [["user"], ["idle"]], [])).toEqual({
      sentence: 'cpu.time by mode where mode != "user" and mode != "idle"',
    });
    expect(excluded(two, [b], [a])).toEqual({ options: { hidden: [a, b], selected: [] } });
  });
});
