import { describe, expect, it } from "vitest";
import type { Note } from "../../data/api";
import { flagsOf, flagText } from "./notes";

const note = (at_ms: number, text = "x", kind: Note["kind"] = "note"): Note => ({
  at_ms,
  kind,
  text,
  who: "page",
});

describe("flags", () => {
  it("stand at their moments", () => {
    const flags = flagsOf([note(1100), note(1500)], 1000, 2000, 1000);
    expect(flags.map((f) => [f.x, f.space])).toEqual([
      [100, 400],
      [500, 500],
    ]);
  });
  it("of near moments are one, just within 44 pixels", () => {
    expect(flagsOf([note(1100), note(1143)], 1000, 2000, 1000).length).toBe(1);
    expect(flagsOf([note(1100), note(1144)], 1000, 2000, 1000).length).toBe(2);
  });
  it("at the end are not cut off", () =>
    expect(flagsOf([note(2000)], 1000, 2000, 1000)[0]!.x).toBe(956));
  it("at the end have their text on the left, where there is more space", () => {
    const flags = flagsOf([note(1100), note(1950)], 1000, 2000, 1000);
    expect(flags.map((f) => [f.flip, f.space])).toEqual([
      [false, 850],
      [false, 50],
    ]);
    expect(flagsOf([note(1950)], 1000, 2000, 1000)).toMatchObject([{ flip: true, space: 950 }]);
  });
  it("of other times are left out", () =>
    expect(flagsOf([note(999), note(2001)], 1000, 2000, 1000)).toEqual([]));
  it("say what happened, and how much more", () => {
    expect(flagText([note(1, "web 1.4", "deploy")])).toBe("deploy: web 1.4");
    expect(flagText([note(1, "a"), note(2, "b")])).toBe("2: a");
  });
});
