import { expect, it } from "vitest";
import type { Kept } from "../../data/api";
import { keptOthers, otherTimes } from "./compare";
import { nameOf, stretchOf, whoseOf } from "./seconds";
import { type Choice, matching, selection, typed, words } from "./whose";

const all: Choice[] = [
  { whose: "", text: "the whole machine", help: "" },
  { whose: "pid:71", text: "nginx 71", help: "" },
  { whose: "process:nginx", text: "nginx", help: "" },
];

it("names whose samples are recorded", () => {
  const name = nameOf({ from: 1000, to: 2500 }, "process:a,b:c");
  expect(name).toBe("1000..2500,process:a,b:c");
  expect([stretchOf(name), whoseOf(name)]).toEqual([{ from: 1000, to: 2500 }, "process:a,b:c"]);
  expect([nameOf({ from: 1, to: 2 }), whoseOf("1..2"), whoseOf("364c,x")]).toEqual([
    "1..2",
    "",
    "",
  ]);
  expect([stretchOf("1..2x"), stretchOf("2..1,pid:1")]).toEqual([null, null]);
});

it("asks for what was chosen", () => {
  expect(selection("pid:71")).toEqual({ pids: [71] });
  expect(selection("thread:72")).toEqual({ threads: [72] });
  expect(selection("process:a:b")).toEqual({ processes: ["a:b"] });
  expect(selection("cgroup:/x")).toEqual({ cgroups: ["/x"] });
  expect(selection("")).toEqual({});
  expect(words("cgroup:/x:y")).toBe("cgroup /x:y");
  expect(words("pid:71", all)).toBe("nginx 71");
});

it("takes what is typed beside what runs", () => {
  expect(matching(all, "ngi", 9).map((c) => c.whose)).toEqual([
    "pid:71",
    "process:nginx",
    "process:ngi",
  ]);
  expect(matching(all, "nginx", 9).map((c) => c.whose)).toEqual(["pid:71", "process:nginx"]);
  expect(typed("71").map((c) => c.whose)).toEqual(["pid:71", "thread:71"]);
  expect(typed("/a b").map((c) => c.whose)).toEqual(["cgroup:/a b"]);
  expect(typed("  ")).toEqual([]);
});

it("compares with other times, other threads, and profiles of the same unit", () => {
  expect(otherTimes("7200000..7260000,pid:1").map((o) => o.id)).toEqual([
    "7140000..7200000,pid:1",
    "3600000..3660000,pid:1",
    "7200000..7260000",
  ]);
  expect(otherTimes("364c47b6df8e7ab7")).toEqual([]);
  const kept = ["ns", "samples", "samples"].map((unit, i) => ({ id: `${i}`, unit })) as Kept[];
  expect(keptOthers("1", "samples", kept).map((k) => k.id)).toEqual(["2"]);
});
