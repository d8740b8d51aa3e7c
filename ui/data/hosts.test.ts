import { describe, expect, test } from "vitest";
import {
  addressOf,
  findHosts,
  greatest,
  groupHosts,
  groupLabels,
  type Host,
  numbers,
} from "./hosts";

function host(name: string, more: Partial<Host> = {}): Host {
  return {
    name,
    url: "",
    newest_ms: 0,
    reports: true,
    labels: {},
    values: [],
    findings: [],
    apart: [],
    ...more,
  };
}

const finding = { rule: "swap", kind: "memory", culprit: "Java", severity: "high", confidence: 1 };
const hosts = [
  host("db1", { labels: { cluster: "a", os: "linux" }, findings: [finding] }),
  host("db2", { labels: { cluster: "b", os: "linux" }, reports: false }),
  host("web1", {
    labels: { cluster: "a", os: "linux" },
    apart: [{ quantity: 4, score: -9, median: 1, text: "its busiest interface sends 1 MB/s" }],
  }),
  host("web2", { labels: { os: "linux" } }),
];
const names = (list: Host[]) => list.map((h) => h.name).join(" ");

describe("findHosts", () => {
  test.each([
    ["", "db1 db2 web1 web2"],
    ["db", "db1 db2"],
    ["DB 1", "db1"],
    ["cluster=a", "db1 web1"],
    ["swap java", "db1"],
    ["sends", "web1"],
    ["silent", "db2"],
    ["nothing", ""],
  ])("%s", (words, want) => {
    expect(names(findHosts(hosts, words))).toBe(want);
  });
});

test("only labels that differ make groups", () => {
  expect(groupLabels(hosts)).toEqual(["cluster"]);
  expect(groupLabels([])).toEqual([]);
});

test("groups are in the order of their first hosts", () => {
  const groups = groupHosts(hosts, "cluster");
  expect(groups.map((g) => `${g.name}: ${names(g.hosts)}`)).toEqual([
    "a: db1 web1",
    "b: db2",
    ": web2",
  ]);
  expect(groups.map((g) => [g.reporting, g.findings])).toEqual([
    [2, 1],
    [0, 0],
    [1, 0],
  ]);
  expect(groupHosts(hosts, "")).toHaveLength(1);
  expect(groupHosts([], "cluster")).toEqual([]);
});

test("what is unknown is no number", () => {
  expect([...numbers([1, null, 0])]).toEqual([1, Number.NaN, 0]);
});

test("only http leads to a host", () => {
  expect(addressOf(host("a", { url: "https://a:7410/" }), "#now")).toBe("https://a:7410/#now");
  expect(addressOf(host("a", { url: "javascript:alert(1)" }), "#now")).toBe("");
  expect(addressOf(host("a"), "#now")).toBe("");
});

describe("greatest", () => {
  test("is that of all curves, whatever is unknown", () => {
    expect(greatest([[1, Number.NaN, 3], [], [2, 7], [Number.NaN]])).toBe(7);
  });
  test("is unknown if nothing is above 0", () => {
    expect(greatest([[0, Number.NaN], [0]])).toBeNaN();
    expect(greatest([])).toBeNaN();
  });
});
