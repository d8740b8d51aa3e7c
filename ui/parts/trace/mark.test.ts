import { expect, it } from "vitest";
import { Trouble } from "../../data/client";
import { byteOf, faults, lineOf } from "./mark";

it("lists all faults in the order of the text", () => {
  const t = new Trouble("wrong", 400, "x", 19, 5, "right", [
    { message: "first", position: 8, length: 2 },
  ]);
  expect(faults(t).map((f) => f.message)).toEqual(["first", "wrong"]);
  expect(faults(new Trouble("no right", 403))).toEqual([]);
});

it("counts bytes", () => {
  const text = "BEGIN { ä }\nEND { wrong }";
  expect(lineOf(text, 19)).toEqual([2, 7]);
  expect([byteOf(text, 8), byteOf(text, 9), byteOf(text, 99)]).toEqual([8, 10, 26]);
});
