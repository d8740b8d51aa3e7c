import { describe, expect, it } from "vitest";
import type { Note } from "../../data/api";
import { flagAt, flagsOf, flagText, gathered, isGrave, linesOf, unreadLines } from "./notes";

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
  it("are found by a moment, also after they have become one with others", () => {
    const notes = [note(1100), note(1150), note(1500, "grave")];
    const before = flagsOf(notes, 1000, 2000, 1000);
    const later = flagsOf(notes, 1000, 3000, 1000);
    expect([before.length, later.length]).toEqual([3, 2]);
    for (const flags of [before, later])
      expect(flagAt(flags, 1500)!.notes.map((n) => n.text)).toEqual(["grave"]);
    expect(flagAt(later, 1150)).toBe(flagAt(later, 1100));
    expect(flagAt(later, Number.NaN)).toBeUndefined();
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
  it("say a message of the kernel rather than one of many processes", () => {
    const all = [note(1, "sh", "process"), note(2, "eth0", "interface"), note(3, "I/O", "kernel")];
    expect(flagText(all)).toBe("3: I/O");
    expect(flagText(all.slice(0, 2))).toBe("2: eth0");
  });
  it("have the warning colour when the kernel reports a problem", () => {
    const of = (text: string, kind: Note["kind"] = "kernel") => isGrave(note(1, text, kind));
    expect(of("kernel, error, io-error: vda")).toBe(true);
    expect(of("kernel, warning: x")).toBe(true);
    expect(of("killed", "memory")).toBe(true);
    expect(of("kernel, info, link-up: eth0")).toBe(false);
    expect(of("sh started", "process")).toBe(false);
  });
  it("have lines in the graphs, but not those of too many processes", () => {
    const many = Array.from({ length: 40 }, (_, i) => note(i, "sh", "process"));
    expect(linesOf(many).length).toBe(40);
    expect(linesOf([...many, note(99, "I/O", "kernel")])).toEqual([99]);
  });
  it("have lines about what could not be read", () => {
    expect(unreadLines([])).toEqual([]);
    expect(unreadLines(["a.b", "kernel.messages: read it: denied", "c.d", "e.f: off"])).toEqual([
      "no messages of the kernel: read it: denied",
      "no events of e.f: off",
      "no events of a.b, c.d: not recorded in this time, or too many rows",
    ]);
  });
});

describe("the notes of a flag as lines", () => {
  const many = Array.from({ length: 90 }, (_, i) => note(1000 + i, `sh[${i}] started`, "process"));
  const killed = note(2000, "kernel, error: oom-kill of 7", "kernel");
  it("are one where only numbers differ, and the graver comes first", () => {
    const deploys = [note(1980, "web 1.4", "deploy"), note(1990, "web 1.5", "deploy")];
    const { lines, left } = gathered([...many, ...deploys, killed], 8);
    expect(lines.map((l) => [l.note.text, l.count, l.until])).toEqual([
      ["kernel, error: oom-kill of 7", 1, 2000],
      ["web 1.4", 1, 1980],
      ["web 1.5", 1, 1990],
      ["sh[0] started", 90, 1089],
    ]);
    expect(left).toBe(0);
  });
  it("are not more than asked for, and the rest is counted", () => {
    const { lines, left } = gathered([killed, note(1, "a"), note(2, "b"), ...many], 2);
    expect(lines.map((l) => l.note.text)).toEqual(["kernel, error: oom-kill of 7", "a"]);
    expect(left).toBe(91);
  });
});
