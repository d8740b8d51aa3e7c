import { describe, expect, it } from "vitest";
import type { Problem } from "../data/api";
import { place, type View, views } from "./place";
import { concerns, problemsOf, seenAt } from "./problems";

const about = (key: string): Problem => ({ key, text: "t" });
const where = (p: Problem): View[] => views.filter((v) => concerns(p, place(v)));

describe("a problem is on the views that it changes", () => {
  it("of a script: Datasets, and Analytics with its statistics", () => {
    const p = about("recording: script slow-opens");
    expect(where(p)).toEqual(["datasets"]);
    const graph = (q: string) => concerns(p, place("analytics", { q: ["cpu.time", q] }));
    expect(graph("trace.slow-opens.1 by process")).toBe(true);
    expect(graph("trace.slow.1")).toBe(false);
  });
  it("of a group of statistics: not profiles and scripts", () => {
    const p = about("recording: budget tcp.flow (traced)");
    expect(where(p)).toEqual(["now", "datasets", "findings"]);
    expect(concerns(p, place("analytics", { q: ["tcp.flow.bytes by peer"] }))).toBe(true);
    expect(concerns(p, place("analytics", { q: ["tcp.flows by peer"] }))).toBe(false);
    expect(concerns(about("recording: budget cpu.stack"), place("profile"))).toBe(true);
  });
  it("of anything else: all", () => {
    expect(where(about("recording: clock"))).toEqual(views);
    expect(where(about("recording: budget"))).toEqual(views);
  });
});

it("has texts only of an older server", () => {
  expect(problemsOf({ trouble: ["a"] })).toEqual([{ key: "a", text: "a" }]);
  expect(problemsOf({ trouble: ["a"], problems: [about("b")] })).toEqual([about("b")]);
  expect(problemsOf({ trouble: null, problems: null })).toEqual([]);
  expect(problemsOf(null)).toEqual([]);
});

it("leads to the script, or to the recording", () => {
  expect(seenAt(about("recording: script a b"))).toEqual(place("trace", { s: "a b" }));
  expect(seenAt(about("silent: x"))).toEqual(place("datasets"));
});
