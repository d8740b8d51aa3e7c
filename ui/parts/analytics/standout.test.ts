import { expect, it } from "vitest";
import type { Stat } from "../../data/api";
import { parse } from "../../data/drill";
import { longer, offCPU } from "./standout";

const stat = (id: string, ...fields: string[]): Stat => ({
  id,
  kind: "delta",
  unit: "ns",
  rate_unit: "ratio",
  fold: "sum",
  sparse: true,
  help: "",
  fields: fields.map((name) => ({ name, type: "word", unit: "", help: "" })),
});

it("widens a stretch to whole seconds", () => {
  expect(longer(1500, 1600)).toEqual({ from: 1000, to: 2000 });
  expect(longer(1000, 3000)).toEqual({ from: 1000, to: 3000 });
  expect(longer(1000, 1000)).toEqual({ from: 1000, to: 2000 });
});

it("asks how long the chosen processes waited, and says what it is not narrowed by", () => {
  const q = parse('disk.latency by pid where process = "a" and device = "sda"')!;
  const delay = stat("process.delay", "pid", "process", "reason");
  const runwait = stat("process.runwait", "pid", "process");
  expect(offCPU(q, [runwait, delay])).toEqual({
    sentence: 'process.delay by process,reason where process = "a"',
    wider: ['disk.latency where process = "a" and device = "sda"'],
  });
  expect(offCPU({ ...q, where: [] }, [runwait])).toEqual({
    sentence: "process.runwait by process",
    wider: [],
  });
  expect(offCPU(q, [])).toBeNull();
});
