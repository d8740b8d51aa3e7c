import { describe, expect, it } from "vitest";
import { colours, grey, Palette, placeOf } from "./colour";

describe("colours", () => {
  it("of a value are always the same", () => {
    expect(placeOf("eth0")).toBe(placeOf("eth0"));
    const a = new Palette();
    const [one] = a.assign(["eth0"]);
    expect(a.assign(["lo", "eth1", "eth0"])[2]).toBe(one);
    expect(new Palette().assign(["eth0"])[0]).toBe(one);
  });

  it("differ within a graph, for any eight values", () => {
    for (let n = 0; n < 200; n++) {
      const values = Array.from({ length: 12 }, (_, i) => `v${n * 31 + i}`);
      const got = new Palette().assign(values);
      expect(new Set(got.slice(0, colours)).size).toBe(colours);
      expect(got.slice(colours)).toEqual([grey, grey, grey, grey]);
    }
  });

  it("stay a value's own when others come, in this graph and in others", () => {
    const p = new Palette();
    const first = p.assign(["a", "b", "c", "d"]);
    expect(p.assign(["d", "c", "b", "a"])).toEqual([...first].reverse());
    expect(p.assign(["x", "y", "a", "b"]).slice(2)).toEqual(first.slice(0, 2));
  });
});
