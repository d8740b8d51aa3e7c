// What a first walk through the page met: the first minutes of a recording, windows that change
// their size, statistics that are not recorded yet, long names.

import type { Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { Dated, Finding } from "../data/api";
import { accessible, Eyes, fits, lacks, picture, Served, until } from "./stage";

const root = process.getuid?.() === 0;
let served: Served;
let eyes: Eyes;
beforeAll(async () => {
  if (lacks !== "") return;
  [served, eyes] = await Promise.all([Served.start(), Eyes.open()]);
});
afterAll(async () => {
  await eyes?.close();
  await served?.end();
});

/** The share of a graph, from its left edge, in which no pixel has the colour of a line or area. */
const emptyShare = (page: Page) =>
  page.evaluate(() => {
    const canvas = document.querySelector<HTMLCanvasElement>(
      '[data-graph="0"] .plot canvas:not(.over)',
    )!;
    const copy = new OffscreenCanvas(canvas.width, canvas.height).getContext("2d")!;
    copy.drawImage(canvas, 0, 0);
    const left = 54;
    const { data, width } = copy.getImageData(left, 0, canvas.width - left, canvas.height - 4);
    for (let x = 0; x < width; x++) {
      for (let i = x * 4; i < data.length; i += width * 4) {
        const [r, g, b] = [data[i]!, data[i + 1]!, data[i + 2]!];
        if (Math.max(r, g, b) > 90 && Math.max(r, g, b) - Math.min(r, g, b) > 60) return x / width;
      }
    }
    return 1;
  });

describe.skipIf(lacks !== "")(`a walk${lacks === "" ? "" : ` (${lacks})`}`, () => {
  it("shows a young recording from its start, and says so", async () => {
    const { page, wrong } = await eyes.at(served, "#analytics?q=cpu.time+by+mode&o=s");
    const graph = page.locator('[data-graph="0"][data-state="shown"]');
    await graph.waitFor();
    await until("the lines begin at the left edge", async () => (await emptyShare(page)) < 0.1);
    expect(await page.locator(".since").first().textContent()).toMatch(/^since \d\d:\d\d:\d\d$/);
    expect(await page.getByRole("button", { name: "10 min" }).getAttribute("aria-pressed")).toBe(
      "true",
    );
    await picture(page, "walk-young");

    // A pause keeps what is in sight; after it the range is the usual one.
    await page.keyboard.press(" ");
    await until("the time is fixed", async () => page.url().includes("from="));
    const params = new URLSearchParams(page.url().split("?").at(-1));
    const { recorded_ms } = await served.get<{ recorded_ms: number }>("health");
    expect(Math.abs(Date.parse(params.get("from")!) - recorded_ms)).toBeLessThan(10_001);
    await page.keyboard.press(" ");
    await until("it is live", async () => !page.url().includes("from="));
    expect(page.url()).not.toContain("last=");

    await page.getByRole("button", { name: "what changed", exact: true }).click();
    const changed = page.getByRole("region", { name: "What changed" });
    await changed.or(page.locator("text=What changed").first()).first().waitFor();
    await until("both halves were recorded", async () => {
      const text = await page.locator("main").innerText();
      expect(text).not.toContain("no statistic was recorded in both times");
      return /of \d+ statistics changed|nothing changed/i.test(text);
    });
    expect(wrong).toEqual([]);
  });

  it("says where a recording began in a time before it", async () => {
    const { page } = await eyes.at(
      served,
      "#now?from=2020-01-01T00:00:00Z&to=2020-01-01T01:00:00Z",
    );
    await page.getByText(/recording began at/).waitFor();
    await until(
      "no users",
      async () => (await page.getByText("not recorded in this time").count()) === 3,
    );
  });

  it("keeps the time axis below the header when the window grows", async () => {
    const { page, wrong } = await eyes.at(served, "#analytics", { width: 390, height: 844 });
    await page.locator('[data-graph="0"][data-state="shown"]').waitFor();
    for (const [width, height] of [
      [1280, 800],
      [640, 400],
      [2560, 1440],
    ] as const) {
      await page.setViewportSize({ width, height });
      await until(
        `the axis is above the first graph at ${width} px`,
        async () => {
          const axis = (await page.locator(".sheet > .axis").boundingBox())!;
          const graph = (await page.locator('[data-graph="0"]').boundingBox())!;
          return axis.y + axis.height <= graph.y + 1;
        },
        5000,
      );
    }
    expect(wrong).toEqual([]);
  });

  it("reads names whole on a phone, and wraps those of 500 characters", async () => {
    const { page } = await eyes.at(served, "#datasets", { width: 390, height: 844 });
    const name = page.locator("tbody th.sentence").first();
    await name.waitFor();
    const clipped = await page
      .locator("tbody th.sentence")
      .evaluateAll((all) => all.filter((e) => e.scrollWidth > e.clientWidth + 1).length);
    expect(clipped, "names that are cut").toBe(0);
    await picture(page, "walk-datasets-phone");

    const long = "/very-long-name".repeat(34);
    await page.goto(`${served.url}#findings`);
    await page.route("**/api/findings?*", async (route) => {
      const answer = await route.fetch();
      const body = (await answer.json()) as { reports: unknown[] };
      const at_ms = Date.now();
      const end = new Date(at_ms).toISOString();
      const start = new Date(at_ms - 10_000).toISOString();
      const claim = `cgroup ${long} uses the most`;
      const id = `cpu-saturated/cgroup:${long}`;
      const culprit = { kind: "cgroup", cgroup: long };
      const finding = {
        id,
        rule: "cpu-saturated",
        severity: "high",
        claim,
        culprit,
        evidence: [],
        confidence: 1,
      };
      body.reports = [{ at_ms, report: { start, end, findings: [finding] } }];
      await route.fulfill({ response: answer, json: body });
    });
    await page.reload();
    await page.getByRole("button", { name: /uses the most/ }).waitFor();
    await fits(page);
    await picture(page, "walk-long-phone");
  });

  it("keeps the head of a graph low on a phone, with its tools behind a button", async () => {
    const { page, wrong } = await eyes.at(served, "#analytics", { width: 390, height: 844 });
    const graph = page.locator('[data-graph="0"]');
    await page.locator('[data-graph="0"][data-state="shown"]').waitFor();
    const above = () =>
      graph.evaluate(
        (g) =>
          g.querySelector(".plot")!.getBoundingClientRect().top - g.getBoundingClientRect().top,
      );
    for (const g of await page.locator("[data-graph]").all()) {
      const high = await g.evaluate(
        (e) => e.querySelector("header")!.getBoundingClientRect().height,
      );
      expect(high, "of a head").toBeLessThan(150);
    }
    expect(await above()).toBeLessThan(125);
    const tools = graph.getByRole("button", { name: "tools of graph 1" });
    expect(await graph.getByRole("button", { name: "CSV" }).isVisible()).toBe(false);
    await tools.focus();
    await page.keyboard.press("Enter");
    expect(await tools.getAttribute("aria-expanded")).toBe("true");
    await graph.getByRole("button", { name: "table" }).click();
    await graph.getByRole("table").nth(1).waitFor();
    await fits(page);
    await accessible(page);
    await picture(page, "walk-head-phone");
    expect(wrong).toEqual([]);
  });

  it("does not say of a finding that lasts when it was seen last, and has the others below", async () => {
    const { page, wrong } = await eyes.at(served, "#now");
    await page.locator(".verdict").waitFor();
    const past = (seconds: number) => {
      const at = (s: number) => new Date(Date.now() - s * 1000).toISOString();
      const more = { at_least: false, confirmed: true, returns: 0, days: 0, days_found: 0 };
      return { since: at(300), share: 1, seen: at(seconds), last_good: null, ...more };
    };
    // A diagnosis of 40 s ago, as on a busy machine.
    await page.route(/api\/diagnosis(\?|$)/, async (route) => {
      const answer = await route.fetch();
      const body = (await answer.json()) as Dated;
      const of = (id: string, seconds: number): Finding => ({
        id,
        rule: id,
        severity: "high",
        claim: `${id} is at its limit`,
        culprit: { kind: "cpu", name: "all" },
        explains: 0.61,
        evidence: [],
        symptoms: null,
        exonerated: null,
        against: null,
        verify: "",
        fix: null,
        confidence: 1,
        past: past(seconds),
      });
      const end = new Date(Date.now() - 40_000).toISOString();
      const start = new Date(Date.now() - 50_000).toISOString();
      const checked = ["cpu"];
      const [findings, held] = [[of("lasting", 40)], [of("before", 120), of("earlier", 150)]];
      body.report = { ...body.report, start, end, checked, findings, held };
      await route.fulfill({ response: answer, json: body });
    });
    await page.goto(`${served.url}#now?again`);
    await page.reload();
    await page.getByText("1 finding", { exact: true }).waitFor();
    const lasting = page.getByRole("article", { name: "lasting is at its limit" });
    expect(await lasting.innerText()).not.toContain("not since");
    expect(await lasting.innerText()).toContain("accounts for 61 % of the symptom");
    const before = page.getByRole("region", { name: "Found in the last minutes, not now" });
    expect(await before.getByRole("article").count()).toBe(2);
    expect(await before.getByText(/not since \d\d:\d\d:\d\d/).count()).toBe(2);
    await accessible(page);
    await picture(page, "walk-held");
    expect(wrong).toEqual([]);
  });

  it.skipIf(!root)("records what a check lacks, which is made from then on", async () => {
    const { page, context, wrong } = await eyes.at(served, "#now");
    const unchecked = page.locator("summary", { hasText: "Not checked:" });
    await unchecked.waitFor();
    expect(await unchecked.textContent()).toContain("answers of HTTP servers");
    await unchecked.click();
    const offer = page.locator('[data-unrecorded="http-slow"]');
    await accessible(page);
    await picture(page, "walk-unchecked");
    await offer.getByRole("button").click();
    await until("it is recorded", async () =>
      (await offer.textContent())?.includes("recorded from now on"),
    );
    await until(
      "the next diagnoses check it",
      async () =>
        (await unchecked.count()) === 0 ||
        !(await unchecked.textContent())?.includes("HTTP servers"),
      90_000,
    );
    expect(wrong).toEqual([]);
    await context.close();
  });

  it("lists each group of keys once in the help", async () => {
    const { page } = await eyes.at(served, "#analytics");
    await page.locator('[data-graph="0"][data-state="shown"]').waitFor();
    await page.keyboard.press("?");
    const titles = await page.getByRole("dialog").locator("h3").allTextContents();
    expect(titles.length).toBeGreaterThan(3);
    expect(new Set(titles).size).toBe(titles.length);
  });

  it.skipIf(!root)("shows recorded samples as soon as Profile is opened", async () => {
    const { page, wrong } = await eyes.at(served, "#profile");
    const all = page.getByText(/^all, [\d\s.]+ samples/).first();
    await all.waitFor();
    // Nobody has chosen it: the address does not have it, and a file shows nothing else for it.
    expect(page.url()).not.toContain("p=");
    await picture(page, "profile-first");
    await accessible(page);
    // What is done with it pins it.
    await page.getByRole("button", { name: "callers" }).click();
    await until("the address has the time", async () => /[?&]p=\d+\.\.\d+/.test(page.url()));
    await all.waitFor();
    await page.locator("input[type=file]").setInputFiles({
      name: "two.folded",
      mimeType: "text/plain",
      buffer: Buffer.from("swapper;do_idle_[k] 400\nnode;uv_run 4\n"),
    });
    await page.getByText(/^all, 404 samples/).waitFor();
    expect(page.url()).not.toContain("busy=");
    expect(wrong).toEqual([]);
  });

  it.skipIf(!root)("says why Profile shows nothing, with a button", async () => {
    const { page, wrong } = await eyes.at(
      served,
      "#profile?from=2001-01-01T00:00:00Z&to=2001-01-01T00:10:00Z",
    );
    await page.getByText("No stacks were recorded in this time.").waitFor();
    await fits(page);
    await accessible(page);
    await page.getByLabel("for how long").selectOption("1 s");
    await page.locator(".empty").getByRole("button", { name: "sample this machine now" }).click();
    await page.locator("[data-chosen]").waitFor();
    expect(wrong).toEqual([]);
  });

  it.skipIf(!root)("draws the heat map of a statistic that is recorded by a click", async () => {
    const { page } = await eyes.at(served, "#analytics?q=syscall.latency+by+process");
    await page.getByText("not recorded yet").waitFor();
    await page.getByRole("button", { name: "record it from now on" }).click();
    const plot = page.locator('[data-graph="0"] .plot');
    await until("the map", async () => Number(await plot.getAttribute("data-high")) > 1e3, 60_000);
    await picture(page, "walk-recorded");
  });
});
