import { describe, expect, it } from "vitest";
import { flag, number, parse, print, text, texts, word } from "./param";
import { parsePlace, place, printPlace, views } from "./place";
import { fresh, panned, parseSpan, printSpan, still, stretch, zoomed } from "./time";
import { stillInSight } from "./young";

const now = Date.parse("2026-11-21T12:00:00Z");

describe("a place", () => {
  const places = [
    place("now"),
    place("now", { all: true }, { kind: "live", span: 3_600_000 }),
    place("analytics", {
      q: ["cpu.time by mode", 'net.device.bytes by device where device != "a&b=c#?%"'],
    }),
    place("analytics", { q: [] }, { kind: "past", from: now - 90_500, to: now }),
    place("datasets", { sort: "disk", down: true, find: "net & disk" }),
    place("findings", { open: "link-saturated/eth0", find: "ö +", quiet: true }),
  ];
  it("is the same after print and parse", () => {
    for (const p of places) expect(parsePlace(printPlace(p))).toEqual(p);
  });
  it("prints to a fixed point", () => {
    for (const p of places) expect(printPlace(parsePlace(printPlace(p)))).toBe(printPlace(p));
  });
  it("says nothing of defaults", () => {
    for (const v of views) expect(printPlace(place(v))).toBe(`#${v}`);
  });
  it("keeps a sentence readable", () => {
    expect(printPlace(place("analytics", { q: ["net.device.bytes by device,direction"] }))).toBe(
      "#analytics?q=net.device.bytes+by+device,direction",
    );
  });
  it("is there for any fragment", () => {
    for (const bad of [
      "",
      "#",
      "#nowhere?x=1",
      "#datasets?sort=colour&down=0",
      "#now?last=-5s",
      "#now?from=yesterday&to=now",
      "#%%%",
      "#now?%E0%A4%A",
    ]) {
      const p = parsePlace(bad);
      expect(p.time).toEqual(fresh);
      expect(parsePlace(printPlace(p))).toEqual(p);
    }
    expect(parsePlace("#datasets?sort=colour").state).toEqual({
      sort: "sentence",
      down: false,
      find: "",
    });
  });
  it("is fixed in a permalink", () => {
    const time = stillInSight({ kind: "live", span: 60_000 }, 0, now + 400);
    expect(printPlace({ ...place("now"), time })).toBe(
      "#now?from=2026-11-21T11:59:00Z&to=2026-11-21T12:00:01Z",
    );
  });
});

describe("a parameter", () => {
  const shape = {
    a: text("x"),
    b: texts(),
    c: word(["one", "two"], "one"),
    d: number(5),
    e: flag(),
  };
  it("has its default where the URL makes no sense", () => {
    expect(parse(shape, new URLSearchParams("c=three&d=NaN&e=0"))).toEqual({
      a: "x",
      b: [],
      c: "one",
      d: 5,
      e: false,
    });
    expect(parse(shape, new URLSearchParams("d="))).toMatchObject({ d: 5 });
  });
  it("is written when it is no default, also the empty text", () => {
    expect(print(shape, { a: "", b: ["2", "1"], c: "two", d: -0.5, e: true })).toEqual([
      ["a", ""],
      ["b", "2"],
      ["b", "1"],
      ["c", "two"],
      ["d", "-0.5"],
      ["e", "1"],
    ]);
  });
});

describe("time", () => {
  it("prints spans as the command line has them", () => {
    for (const [ms, s] of [
      [250, "250ms"],
      [90_000, "1m30s"],
      [600_000, "10m"],
      [7 * 86_400_000, "7d"],
      [1500, "1s500ms"],
    ] as const) {
      expect(printSpan(ms)).toBe(s);
      expect(parseSpan(s)).toBe(ms);
    }
    expect(parseSpan("1w")).toBe(7 * 86_400_000);
    for (const bad of ["", "0s", "10", "m", "10 m", "-10m", "1e9s"])
      expect(parseSpan(bad), bad).toBeNull();
  });
  it("pans into the past, and follows the clock again when it comes to it", () => {
    const live = { kind: "live", span: 1000 } as const;
    const back = panned(live, -0.5, now);
    expect(back).toEqual({ kind: "past", from: now - 1500, to: now - 500 });
    expect(panned(back, 0.4, now)).toMatchObject({ kind: "past", to: now - 100 });
    expect(panned(back, 0.5, now)).toEqual(live);
  });
  it("zooms around the moment that is pointed at", () => {
    const r = { kind: "past", from: now - 100_000, to: now - 20_000 } as const;
    const z = zoomed(r, 0.5, now, now - 80_000);
    expect(z).toEqual({ kind: "past", from: now - 90_000, to: now - 50_000 });
    expect(stretch(zoomed(fresh, 2, now), now)).toEqual({ from: now - 1_200_000, to: now });
    expect(zoomed(r, 1e-9, now)).toMatchObject({
      kind: "past",
      from: now - 62_500,
      to: now - 57_500,
    });
  });
  it("pauses on whole seconds", () => {
    expect(still({ kind: "live", span: 5000 }, now + 1)).toEqual({
      kind: "past",
      from: now - 5000,
      to: now + 1000,
    });
  });
});
