import { describe, expect, it } from "vitest";
import type { Stat } from "../../data/api";
import { parsePlace, place, printPlace } from "../../state/place";
import {
  filtered,
  filterTerms,
  moved,
  stateOf,
  stateText,
  unfiltered,
  worksheetPlace,
} from "./worksheets";

const stat = (...names: string[]): Stat =>
  ({ id: "x", fields: names.map((name) => ({ name })) }) as unknown as Stat;

describe("a worksheet", () => {
  it("is what the address has of it, without time and marks", () => {
    const from = parsePlace(
      "#analytics?last=1h&q=cpu.time+by+mode&q=disk.bytes&o=stack&o=fold&columns=2&only=device+%3D+%22sda%22&sheet=3&version=2&at=5&a=1&b=2",
    );
    const text = stateText(from.state as never);
    expect(text).toBe(
      "q=cpu.time+by+mode&q=disk.bytes&o=stack&o=fold&columns=2&only=device+%3D+%22sda%22",
    );
    expect(stateText(stateOf(text))).toBe(text);
    // What the server accepts: the printable part of ASCII, without what ends an address.
    expect(stateText(stateOf('q=a+where+b+%3D+"é<>`%23"'))).toMatch(/^[!-~]+$/);
    expect(stateText(stateOf('q=a+where+b+%3D+"é<>`%23"'))).not.toMatch(/["#<>`]/);
    expect(printPlace(from)).toContain("sheet=3&version=2");
  });

  it("is a place, with none of the marks of another", () => {
    const one = { id: 3, version: 2, state: "q=disk.bytes&columns=2" };
    expect(printPlace(place("analytics", worksheetPlace(one)))).toBe(
      "#analytics?q=disk.bytes&columns=2&sheet=3&version=2",
    );
    expect(worksheetPlace(one)).toMatchObject({ at: 0, a: 0, b: 0, against: "" });
  });

  it("has its graphs in another order when one is moved", () => {
    const list = ["a", "b", "c", "d"];
    expect(moved(list, 0, 2)).toEqual(["b", "c", "a", "d"]);
    expect(moved(list, 3, 0)).toEqual(["d", "a", "b", "c"]);
    expect(moved(list, 1, 1)).toEqual(list);
    expect(list.join("")).toBe("abcd");
  });
});

describe("the filter of all graphs", () => {
  const terms = filterTerms('device = "eth0" and direction = "rx"')!;

  it("narrows the queries whose statistic has the fields", () => {
    expect(filtered("net.bytes by device", terms, stat("device", "direction"))).toEqual({
      text: 'net.bytes by device where device = "eth0" and direction = "rx"',
      lost: [],
    });
    expect(filtered("a where pid = 7", terms, stat("device", "pid"))).toEqual({
      text: 'a where pid = 7 and device = "eth0"',
      lost: ['direction = "rx"'],
    });
    expect(filtered("cpu.time", terms, stat("mode"))).toEqual({
      text: "cpu.time",
      lost: ['device = "eth0"', 'direction = "rx"'],
    });
    expect(filtered("cpu time", terms, stat("mode"))).toEqual({ text: "cpu time", lost: [] });
  });

  it("is no part of the query that is kept", () => {
    const base = 'a where device = "eth0"';
    const shown = filtered(base, terms, stat("device", "direction")).text;
    expect(shown).toBe('a where device = "eth0" and direction = "rx"');
    expect(unfiltered(shown, base, terms)).toBe(base);
    expect(unfiltered(`${shown} and pid = 7`, base, terms)).toBe(`${base} and pid = 7`);
    expect(unfiltered("wrong query", base, terms)).toBe("wrong query");
  });

  it("is refused where it is none", () => {
    expect(filterTerms("")).toEqual([]);
    expect(filterTerms(" where pid = 7 ")).toHaveLength(1);
    for (const text of ["device", "device =", 'by a where b = "c"', 'a = "b" or c = "d"'])
      expect(filterTerms(text), text).toBeNull();
  });
});
