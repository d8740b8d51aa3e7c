import { expect, it } from "vitest";
import type { Stat } from "./api";
import { parse } from "./drill";
import { titleOf, tree } from "./title";

const stat = (id: string, words: string[], rate: string, help = ""): Stat => ({
  id,
  words,
  kind: "delta",
  unit: "B",
  rate_unit: rate,
  fold: "sum",
  sparse: false,
  help,
  fields: [{ name: "peer", type: "word", unit: "", help: "" }],
});
const bytes = stat("net.device.bytes", ["Network", "interfaces", "bytes"], "B/s");
const flow = stat("tcp.flow.rtt", ["TCP", "connections", "round trip"], "ns", "smoothed time");
const size = stat("memory.size", ["Memory", "", "size"], "B");

it("names graphs in words", () => {
  expect(titleOf(bytes, parse("net.device.bytes by netns,device,direction")!)).toBe(
    "Network interfaces: bytes per second by namespace, interface, direction",
  );
  const speed: Stat = {
    ...stat("net.device.speed", ["Network", "interfaces", "link speed"], "bit/s"),
    kind: "level",
  };
  expect(titleOf(speed, parse("net.device.speed")!)).toBe("Network interfaces: link speed");
  expect(titleOf(size, parse("memory.size")!)).toBe("Memory: size");
});

it("lists statistics by subsystem and thing, those that have all the words", () => {
  const all = tree([flow, bytes, size], "");
  expect(all.map((g) => g.name)).toEqual(["Memory", "Network", "TCP"]);
  expect(all[1]!.things[0]).toMatchObject({ name: "interfaces" });
  const found = (want: string) =>
    tree([flow, bytes, size], want).flatMap((g) =>
      g.things.flatMap((t) => t.lines.map((l) => l.stat.id)),
    );
  expect(found("round TCP")).toEqual(["tcp.flow.rtt"]);
  expect(found("smoothed")).toEqual(["tcp.flow.rtt"]);
  expect(found("net.device")).toEqual(["net.device.bytes"]);
  expect(found("round nothing")).toEqual([]);
});
