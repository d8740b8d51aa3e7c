import { render } from "svelte/server";
import { expect, it } from "vitest";
import type { Report as Diagnosis } from "../../data/api";
import Report from "./Report.svelte";

const quiet: Diagnosis = {
  start: "2026-11-21T12:00:00Z",
  end: "2026-11-21T12:00:10Z",
  host: "h",
  findings: [],
  checked: ["cpu", "memory"],
  fine: [{ resource: "cpu", because: "26 % of 2 CPUs idle" }],
  missing: null,
  notes: null,
};
const text = (r: Diagnosis): string =>
  render(Report, { props: { report: r } })
    .body.replace(/<[^>]*>/g, " ")
    .replace(/\s+/g, " ");

it("shows what could not be ruled out, and does not call the machine fine then", () => {
  const shown = text({
    ...quiet,
    doubtful: [{ resource: "memory", because: "some task waits for memory 31 % of the time" }],
  });
  expect(shown).toContain("Not ruled out memory some task waits for memory 31 % of the time");
  expect(shown).not.toContain("Nothing is wrong here");
  expect(shown).toContain("26 % of 2 CPUs idle");
});

it("calls a machine fine where all is ruled out, also in reports that do not know of doubts", () => {
  for (const r of [quiet, { ...quiet, doubtful: null }, { ...quiet, doubtful: [] }]) {
    expect(text(r)).toContain("Nothing is wrong here");
    expect(text(r)).not.toContain("Not ruled out");
  }
});

it("offers to record what a check lacks, only where recording helps", () => {
  const lacking = {
    rule: "http-slow",
    checks: "answers of HTTP servers",
    statistic: "",
    why: "traced only on request",
  };
  const shown = text({
    ...quiet,
    missing: [
      { ...lacking, record: ["http.answer.count by port", "http.request.count by port"] },
      { rule: "disk-hangs", checks: "disks", statistic: "disk.busy by device", why: "denied" },
    ],
  });
  expect(shown).toContain("record answers of HTTP servers 2 datasets, until you delete them");
  expect(shown).not.toContain("record disks");
});
