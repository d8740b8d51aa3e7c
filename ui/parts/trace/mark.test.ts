import { expect, it } from "vitest";
import { Trouble } from "../../data/client";
import { faults, lineOf, pieces } from "./mark";

it("marks every fault at its place, by bytes", () => {
  const text = "BEGIN { ä }\nEND { wrong }";
  const t = new Trouble("wrong", 400, "x", 19, 5, "right", [
    { message: "first", position: 8, length: 2 },
  ]);
  const all = faults(t);
  expect(all.map((f) => f.message)).toEqual(["first", "wrong"]);
  expect(pieces(text, all).map((p) => [p.text, p.wrong])).toEqual([
    ["BEGIN { ", 0],
    ["ä", 1],
    [" }\nEND { ", 0],
    ["wrong", 2],
    [" }", 0],
  ]);
  expect(lineOf(text, 19)).toEqual([2, 7]);
});

it("marks the end of a text", () => {
  expect(pieces("BEGIN {", [{ message: "", position: 7, length: 0 }])).toEqual([
    { text: "BEGIN {", wrong: 0 },
    { text: " ", wrong: 1 },
  ]);
  expect(faults(new Trouble("no right", 403))).toEqual([]);
});
