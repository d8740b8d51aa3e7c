import { expect, it } from "vitest";
import type { Stat } from "./api";
import { complete, completeTerms, indexOfByte, statOf } from "./sentence";

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

it("writes values as terms have them, within quotes too", () => {
  const values = (): string[] => ["eth0", "a b", "7"];
  const after = (text: string): string[] => {
    const cursor = text.indexOf("|");
    const plain = text.replace("|", "");
    const c = complete(plain, cursor, stats, 12, values);
    return c.options.map((o) => plain.slice(0, c.from) + o.text + plain.slice(c.to));
  };
  const begin = "net.device.bytes where device";
  expect(after(`${begin} = |`)).toEqual([`${begin} = "eth0"`, `${begin} = "a b"`, `${begin} = 7`]);
  expect(after(`${begin} = et|`)).toEqual([`${begin} = "eth0"`]);
  expect(after(`${begin} = "et|"`)).toEqual([`${begin} = "eth0"`]);
  expect(after(`${begin} = "a b|`)).toEqual([`${begin} = "a b"`]);
  expect(after(`${begin} in ("eth0", |)`)).toContain(`${begin} in ("eth0", "a b")`);
  expect(after(`${begin} = "et| and netns = "x"`)).toEqual([`${begin} = "eth0" and netns = "x"`]);
});

it("completes the terms of a filter of several graphs", () => {
  const asked: string[] = [];
  const terms = (text: string): string[] => {
    const cursor = text.indexOf("|");
    const of = completeTerms(text.replace("|", ""), cursor, stats.slice(0, 3), (f) => {
      asked.push(f);
      return ["lo"];
    });
    expect(of.from).toBeGreaterThanOrEqual(0);
    return of.options.map((o) => o.text);
  };
  expect(terms("|")).toHaveLength(7);
  expect(terms("d|")).toEqual(["device", "direction", "mode", "pid"]);
  expect(terms("device |")[0]).toBe("=");
  expect(asked).toEqual([]);
  expect(terms("device = |")).toEqual(['"lo"']);
  expect(asked).toEqual(["device"]);
  expect(terms('device = "lo" |')).toEqual(["and"]);
  expect(terms('device = "lo" and pr|')).toEqual(["process"]);
  const two = completeTerms("pro", 3, [stats[2]!, stats[0]!]);
  expect(two.options).toEqual([{ text: "process", help: "the process; of 1 of 2 graphs" }]);
});
