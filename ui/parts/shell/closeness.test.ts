import { expect, it } from "vitest";
import { closeness } from "./closeness";

it("finds names before helps, and wants every word", () => {
  const names = ["net.device.bytes", "disk.bytes", "bytes", "cpu.time"];
  const order = (typed: string) =>
    names
      .map((n) => ({ n, s: closeness(typed, n, n === "cpu.time" ? "bytes of nothing" : "") }))
      .filter((x) => x.s > 0)
      .sort((a, b) => b.s - a.s)
      .map((x) => x.n);
  expect(order("bytes")).toEqual(["bytes", "disk.bytes", "net.device.bytes", "cpu.time"]);
  expect(order("net bytes")).toEqual(["net.device.bytes"]);
  expect(order("ndb")).toEqual(["net.device.bytes"]);
  expect(order("xyz")).toEqual([]);
  expect(order("").length).toBe(4);
});

it("does not find a word whose letters are only in order somewhere", () => {
  expect(closeness("client", "tcp.listen.limit", "")).toBe(0);
  expect(closeness("client", "Both CPUs are busy: link[1] uses 36 % in the kernel", "")).toBe(0);
  expect(closeness("nedeby", "net.device.bytes", "")).toBeGreaterThan(0);
  expect(closeness("nbd", "net.device.bytes", "")).toBe(0);
});
