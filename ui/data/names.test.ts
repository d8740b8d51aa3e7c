import { expect, it } from "vitest";
import { namesOf } from "./names";

const text = (parts: { text: string; common: boolean }[]): string =>
  parts.map((p) => (p.common ? `(${p.text})` : p.text)).join("");

it("takes names apart where rows differ, and never loses a letter", () => {
  const rows = [
    ["pg2cl4", "e1000g0", "rx"],
    ["pg2cl4", "e1000g0", "tx"],
    ["pg2cl15", "e1000g0", "tx"],
  ];
  const of = namesOf(rows);
  expect(text(of(rows[0]!))).toBe("(pg2cl)4 (e1000g0 )rx");
  expect(text(of(rows[2]!))).toBe("(pg2cl)15 (e1000g0 )tx");
  for (const r of rows)
    expect(
      of(r)
        .map((p) => p.text)
        .join(""),
    ).toBe(r.join(" "));
});

it("does not cut one row, equal rows, or what is short", () => {
  expect(text(namesOf([["abcdef"]])(["abcdef"]))).toBe("abcdef");
  expect(text(namesOf([["ab1"], ["ab2"]])(["ab2"]))).toBe("ab2");
  expect(text(namesOf([["/system.slice/a"], ["/system.slice/"]])(["/system.slice/"]))).toBe(
    "(/system.slice/)",
  );
  expect(namesOf([])([])).toEqual([{ text: "", common: false }]);
});

it("does not count letters twice where one label is part of another", () => {
  const rows = [["aaaaaa"], ["aaaaaaaa"]];
  const of = namesOf(rows);
  for (const r of rows)
    expect(
      of(r)
        .map((p) => p.text)
        .join(""),
    ).toBe(r[0]);
});

it("takes what rows share apart also where one has no label, and labels from each other", () => {
  const rows = [
    ["culab27711-dst", "nxge0", "tx"],
    ["culab27711.4-src", "lo", "rx"],
    ["", "eth0", "tx"],
  ];
  const of = namesOf(rows);
  expect(of(rows[0]!)).toEqual([
    { text: "culab27711", common: true },
    { text: "-dst ", common: false },
    { text: "nxge0 ", common: false },
    { text: "tx", common: false },
  ]);
  expect(of(rows[2]!).map((p) => p.text)).toEqual(["eth0 ", "tx"]);
  const one = namesOf([
    ["srv", "eth0"],
    ["", "eth0"],
  ]);
  expect(text(one(["srv", "eth0"]))).toBe("srv (eth0)");
});

it("joins the labels of rows of many fields: each would be cut to nothing", () => {
  const rows = [
    ["srv", "10.0.0.1", "2049", "client3", "771", "tx"],
    ["web", "20.1.0.4", "443", "other", "9", "rx"],
  ];
  expect(namesOf(rows)(rows[0]!)).toEqual([{ text: rows[0]!.join(" "), common: false }]);
});
