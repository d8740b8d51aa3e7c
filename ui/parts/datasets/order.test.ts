import { expect, it } from "vitest";
import type { Dataset } from "../../data/api";
import { lost, lostBy, order } from "./order";

const dataset = (id: number, sentence: string, part: Partial<Dataset> = {}): Dataset => ({
  id,
  sentence,
  kind: "delta",
  unit: "B/s",
  step_ms: 1000,
  since_ms: 0,
  state: "recording",
  maker: "default",
  rows: 1,
  samples_per_s: 1,
  disk_bytes: 1,
  memory_bytes: 1,
  cpu: 1,
  from_ms: null,
  to_ms: null,
  loss: null,
  ...part,
});

const all = [
  dataset(1, "net.b", { cpu: 2, state: "suspended" }),
  dataset(2, "cpu.a", { cpu: null }),
  dataset(3, "disk.c", {
    cpu: 1,
    maker: "page",
    loss: [
      { reason: "x", events: 2 },
      { reason: "y", events: 3 },
    ],
  }),
];
const ids = (list: Dataset[]) => list.map((d) => d.id);

it("sorts, with what is not known last both ways", () => {
  expect(ids(order(all, "", "sentence", false))).toEqual([2, 3, 1]);
  expect(ids(order(all, "", "cpu", false))).toEqual([3, 1, 2]);
  expect(ids(order(all, "", "cpu", true))).toEqual([1, 3, 2]);
  expect(ids(order(all, "", "loss", true))).toEqual([3, 2, 1]);
  expect(lost(all[2]!)).toBe(5);
});

it("lists losses by dataset and reason, uncounted ones first", () => {
  const uncounted = dataset(4, "cpu.d", { loss: [{ reason: "clock set", events: 0 }] });
  expect(lostBy([...all, uncounted])).toEqual([
    { sentence: "cpu.d", reason: "clock set", events: 0 },
    { sentence: "disk.c", reason: "y", events: 3 },
    { sentence: "disk.c", reason: "x", events: 2 },
  ]);
  // Two recordings of one sentence, at different steps, are one line.
  expect(lostBy([all[2]!, { ...all[2]!, id: 9 }]).map((l) => l.events)).toEqual([6, 4]);
  expect(lostBy([all[0]!, all[1]!])).toEqual([]);
});

it("finds by every word", () => {
  expect(ids(order(all, "PAGE disk", "sentence", false))).toEqual([3]);
  expect(ids(order(all, "suspended", "sentence", false))).toEqual([1]);
  expect(ids(order(all, "page net", "sentence", false))).toEqual([]);
});
