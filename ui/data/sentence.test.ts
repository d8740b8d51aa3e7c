import { expect, it } from "vitest";
import type { Stat } from "./api";
import { complete, indexOfByte, statOf } from "./sentence";

const field = (name: string) => ({ name, type: "word", unit: "", help: `the ${name}` });
const stat = (id: string, ...fields: string[]): Stat => ({
  id,
  kind: "delta",
  unit: "B",
  rate_unit: "B/s",
  fold: "sum",
  sparse: false,
  help: `help of ${id}`,
  fields: fields.map(field),
});
const stats = [
  stat("cpu.time", "cpu", "mode"),
  stat("net.device.bytes", "netns", "device", "direction"),
  stat("process.cpu", "process", "pid"),
  stat("memory.oom"),
];

/** Options at the bar in the text. */
function at(text: string): string[] {
  const cursor = text.indexOf("|");
  return complete(text.replace("|", ""), cursor, stats).options.map((o) => o.text);
}

it("completes each place of a sentence", () => {
  expect(at("|")).toEqual(["cpu.time", "net.device.bytes", "process.cpu", "memory.oom"]);
  expect(at("cpu|")).toEqual(["cpu.time", "process.cpu"]);
  expect(at("byt|")).toEqual(["net.device.bytes"]);
  expect(at("cpu.time |")).toEqual(["by", "where"]);
  expect(at("cpu.time by |")).toEqual(["cpu", "mode"]);
  expect(at("cpu.time by cpu,|")).toEqual(["mode"]);
  expect(at("cpu.time by cpu, m|")).toEqual(["mode"]);
  expect(at("cpu.time by cpu |")).toEqual(["where"]);
  expect(at("net.device.bytes where d|")).toEqual(["device", "direction"]);
  expect(at("net.device.bytes where device |")[0]).toBe("=");
  expect(at("net.device.bytes where device = |")).toEqual([]);
  expect(at('net.device.bytes where device = "lo" |')).toEqual(["and"]);
  expect(at("net.device.bytes by device where device in (lo, eth0) and |")).toEqual([
    "netns",
    "device",
    "direction",
  ]);
  expect(at("nothing.such |")).toEqual([]);
  expect(at("memory.oom |")).toEqual([]);
});

it("takes the place of the whole word at the cursor", () => {
  expect(complete("net.dev where x = 1", 5, stats)).toMatchObject({ from: 0, to: 7 });
});

it("finds the statistic, and a byte's place", () => {
  expect(statOf(" cpu.time by mode")).toBe("cpu.time");
  expect(indexOfByte('x = "ö€😀" y', 5)).toBe(5);
  expect(indexOfByte('x = "ö€😀" y', 7)).toBe(6);
  expect(indexOfByte('x = "ö€😀" y', 14)).toBe(9);
  expect(indexOfByte("abc", 99)).toBe(3);
});
