import { expect, it } from "vitest";
import { foundIn, matcher } from "../../data/calls";
import { folded } from "../../data/folded";
import { nameOf } from "../../data/profile";
import { matchesOf, nextMatch } from "./matches";

const calls = folded("a;copy;copy 1\na;other 2\nb;copy 3\nz 4");

it("finds the outermost calls, from left to right", () => {
  const found = matchesOf(calls, foundIn(calls.functions, matcher("copy")!));
  expect(found.map((i) => [nameOf(calls, i), calls.total[i]])).toEqual([
    ["copy", 1],
    ["copy", 3],
  ]);
  expect(matchesOf(calls, foundIn(calls.functions, matcher("none")!))).toEqual([]);
});

it("goes around", () => {
  const m = [3, 7, 9];
  expect([-1, 3, 7, 8, 9, 12].map((n) => nextMatch(m, n, 1))).toEqual([3, 7, 9, 9, 3, 3]);
  expect([-1, 3, 7, 8, 9, 12].map((n) => nextMatch(m, n, -1))).toEqual([9, 9, 3, 7, 7, 9]);
  expect(nextMatch([], 5, 1)).toBe(-1);
});
