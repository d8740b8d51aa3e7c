import { expect, it } from "vitest";
import { groups, pieces, tokens } from "./highlight";

const kinds = (text: string) =>
  tokens(text)
    .filter((t) => t.kind !== "")
    .map((t) => `${t.kind} ${t.text}`);

it("finds the words of a program", () => {
  expect(
    kinds(
      [
        "#pragma D option quiet",
        "/* why */",
        "syscall::read:return,",
        "tick-1s",
        "/arg0 > 10/",
        '{\t@b[execname] = sum(arg0); printf("a { %d", x); // end',
        "}",
        "END { }",
      ].join("\n"),
    ),
  ).toEqual([
    "comment #pragma D option quiet",
    "comment /* why */",
    "probe syscall::read:return",
    "probe tick-1s",
    "word arg0",
    "number 10",
    "sum @b",
    "word execname",
    "own sum",
    "word arg0",
    "own printf",
    'string "a { %d"',
    "comment // end",
    "probe END",
  ]);
});

it("is the same text again, whatever the text", () => {
  for (const text of ["", "{", '"', "/*", "a:b:/c/d:e", "/x/ {", "'\\", "ä { ö }", "/1 / 2/ { x }"])
    expect(
      tokens(text)
        .map((t) => t.text)
        .join(""),
    ).toBe(text);
});

it("marks every fault at its place, by bytes", () => {
  const text = "BEGIN { ä }\nEND { wrong }";
  const wrong = [
    { message: "first", position: 8, length: 2 },
    { message: "second", position: 19, length: 5 },
    { message: "within", position: 20, length: 2 },
  ];
  const all = pieces(text, wrong);
  expect(all.map((p) => p.text).join("")).toBe(text);
  expect(all.filter((p) => p.wrong > 0).map((p) => [p.text, p.wrong])).toEqual([
    ["ä", 1],
    ["wrong", 2],
  ]);
  const call = groups(pieces("x = quantise(arg0);", [{ message: "", position: 4, length: 14 }]));
  expect(call.map((g) => [g.wrong, g.pieces.map((p) => p.text).join("")])).toEqual([
    [0, "x = "],
    [1, "quantise(arg0)"],
    [0, ";"],
  ]);
  const end = pieces("BEGIN {", [{ message: "", position: 7, length: 0 }]);
  expect(end.at(-1)).toEqual({ text: " ", kind: "", wrong: 1 });
});
